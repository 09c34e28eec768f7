"""Models of Hugging Face folders in `transformers`, offline, to compare exported models with the run."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config.models import Pooling
from regard.interop.model_folders import read_json
from regard.interop.packages import import_package
from regard.nn.bert import pool

BATCH_SIZE = 64
FALLBACK_NAME = "regard, which read the folder back (transformers is not installed)"
"""Name of the reference in an export check without `transformers`."""


def is_installed() -> bool:
    """Whether `transformers` is installed."""
    return find_spec("transformers") is not None


def version() -> str:
    """Name and version of the package."""
    return f"transformers {import_package('transformers').__version__}"


def load_model(folder: Path, class_name: str) -> Any:
    """Load a folder with a class of `transformers`, without its log and progress bars."""
    package = import_package("transformers")
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return getattr(package, class_name).from_pretrained(folder, local_files_only=True).eval()


class TransformersModel:
    """Model and tokenizer of a folder, loaded by `transformers`."""

    def __init__(self, folder: Path, class_name: str) -> None:
        self.name = version()
        self.model: Any = load_model(folder, class_name)
        tokenizers = import_package("transformers").AutoTokenizer
        self.tokenizer: Any = tokenizers.from_pretrained(folder, local_files_only=True)


class TransformersGpt(TransformersModel):
    """A GPT in `transformers`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "AutoModelForCausalLM")

    @torch.inference_mode()
    def generate(self, prompt: str, tokens: int) -> str:
        """The continuation of a prompt, by greedy search."""
        batch = self.tokenizer(prompt, return_tensors="pt")
        generated = self.model.generate(
            **batch, max_new_tokens=tokens, do_sample=False, pad_token_id=self.model.config.eos_token_id
        )
        continuation = generated[0, batch["input_ids"].size(1) :]
        return str(
            self.tokenizer.decode(continuation, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    @torch.inference_mode()
    def logits(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position: (batch, length, vocabulary)."""
        logits: Tensor = self.model(input_ids=ids).logits
        return logits


class TransformersBert(TransformersModel):
    """A BERT in `transformers`, with the head of the class; `pooling` applies to one without a head."""

    def __init__(self, folder: Path, class_name: str, pooling: Pooling = "mean") -> None:
        super().__init__(folder, class_name)
        self.pooling: Pooling = pooling

    def ids(self, text: str, pair: str | None) -> list[int]:
        """Token ids of a text or pair by the folder's tokenizer."""
        return list(self.tokenizer(text, pair)["input_ids"])

    @torch.inference_mode()
    def __call__(self, ids: Tensor, segments: Tensor) -> Tensor:
        """Output of the head, in the shape of `onnx_graphs.bert_outputs`."""
        mask = ids.ne(self.model.config.pad_token_id).long()
        output = self.model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        if "start_logits" in output:
            return torch.stack([output.start_logits, output.end_logits], 1)
        if "last_hidden_state" in output:
            hidden: Tensor = output.last_hidden_state
            return pool(hidden, mask.bool(), self.pooling)
        logits: Tensor = output.prediction_logits if "prediction_logits" in output else output.logits
        return logits


class TransformersVit:
    """A ViT in `transformers`, with the pixel mean and standard deviation of the folder."""

    def __init__(self, folder: Path) -> None:
        self.name = version()
        self.model: Any = load_model(folder, "AutoModelForImageClassification")
        config = read_json(folder, "preprocessor_config.json")
        self.mean, self.std = (
            torch.tensor(config[name]).view(-1, 1, 1) for name in ("image_mean", "image_std")
        )

    @torch.inference_mode()
    def __call__(self, pixels: Tensor) -> Tensor:
        """Logits (images, labels) from pixels (images, 1 or 3, height, width) in 0 to 1."""
        logits: Tensor = self.model((pixels.expand(-1, 3, -1, -1) - self.mean) / self.std).logits
        return logits


class TransformersTranslator(TransformersModel):
    """A translation model in `transformers`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "AutoModelForSeq2SeqLM")

    @torch.inference_mode()
    def translate(self, sentences: Sequence[str], beam: int) -> list[str]:
        """Translate with the tokenizer and `generate` of `transformers`."""
        texts: list[str] = []
        for first in range(0, len(sentences), BATCH_SIZE):
            batch = self.tokenizer(
                list(sentences[first : first + BATCH_SIZE]),
                return_tensors="pt",
                padding=True,
                truncation=True,
                return_token_type_ids=False,
            )
            generated = self.model.generate(**batch, num_beams=beam, do_sample=False)
            texts += self.tokenizer.batch_decode(generated, skip_special_tokens=True)
        return texts

    @torch.inference_mode()
    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the next token at every target position: (batch, target, vocabulary)."""
        mask = (source != self.model.config.pad_token_id).long()
        output = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=target)
        logits: Tensor = output.logits
        return logits
