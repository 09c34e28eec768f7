"""A Hugging Face folder opened by `transformers` itself, offline, to see whether it says there what we say."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config.models import Pooling
from regard.interop.folders import read_json
from regard.interop.packages import needed
from regard.nn.bert import pool

BATCH = 64
MISSING = "regard, which read the folder back (transformers is not installed)"
"""Who answers where `transformers` cannot."""


def is_installed() -> bool:
    return find_spec("transformers") is not None


def version() -> str:
    return f"transformers {needed('transformers').__version__}"


def model_in(folder: Path, kind: str) -> Any:
    """The model of a folder, opened without a word."""
    package = needed("transformers")
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return getattr(package, kind).from_pretrained(folder, local_files_only=True).eval()


class Opened:
    """Model and tokenizer as `transformers` finds them in a folder."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.name = version()
        self.model: Any = model_in(folder, kind)
        tokenizers = needed("transformers").AutoTokenizer
        self.tokenizer: Any = tokenizers.from_pretrained(folder, local_files_only=True)


class OpenedGenerator(Opened):
    """A GPT."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "AutoModelForCausalLM")

    @torch.inference_mode()
    def go_on(self, prompt: str, tokens: int) -> str:
        """What comes after a prompt, greedily."""
        batch = self.tokenizer(prompt, return_tensors="pt")
        written = self.model.generate(
            **batch, max_new_tokens=tokens, do_sample=False, pad_token_id=self.model.config.eos_token_id
        )
        after = written[0, batch["input_ids"].size(1) :]
        return str(self.tokenizer.decode(after, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    @torch.inference_mode()
    def logits(self, ids: Tensor) -> Tensor:
        """Scores of the next token at every place: (batch, length, vocabulary)."""
        found: Tensor = self.model(input_ids=ids).logits
        return found


class OpenedReader(Opened):
    """A BERT with its head, opened by the class of that name; `pooling` is for text vectors, of one without."""

    def __init__(self, folder: Path, kind: str, pooling: Pooling = "mean") -> None:
        super().__init__(folder, kind)
        self.pooling: Pooling = pooling

    def ids(self, text: str, pair: str | None) -> list[int]:
        return list(self.tokenizer(text, pair)["input_ids"])

    @torch.inference_mode()
    def __call__(self, ids: Tensor, segments: Tensor) -> Tensor:
        """What the head says, in the shape in which ours does."""
        seen = ids.ne(self.model.config.pad_token_id).long()
        found = self.model(input_ids=ids, token_type_ids=segments, attention_mask=seen)
        if "start_logits" in found:
            return torch.stack([found.start_logits, found.end_logits], 1)
        if "last_hidden_state" in found:
            hidden: Tensor = found.last_hidden_state
            return pool(hidden, seen.bool(), self.pooling)
        scores: Tensor = found.prediction_logits if "prediction_logits" in found else found.logits
        return scores


class OpenedVision:
    """A ViT, with the mean and the spread that the folder tells."""

    def __init__(self, folder: Path) -> None:
        self.name = version()
        self.model: Any = model_in(folder, "AutoModelForImageClassification")
        told = read_json(folder, "preprocessor_config.json")
        self.mean, self.spread = (
            torch.tensor(told[name]).view(-1, 1, 1) for name in ("image_mean", "image_std")
        )

    @torch.inference_mode()
    def __call__(self, pixels: Tensor) -> Tensor:
        """Scores from pixels (images, 1 or 3, height, width), from 0 to 1."""
        scores: Tensor = self.model((pixels.expand(-1, 3, -1, -1) - self.mean) / self.spread).logits
        return scores


class OpenedTranslator(Opened):
    """A translator."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "AutoModelForSeq2SeqLM")

    @torch.inference_mode()
    def translate(self, sentences: Sequence[str], beam: int) -> list[str]:
        """Texts in, texts out, by their tokenizer and their `generate`."""
        texts: list[str] = []
        for first in range(0, len(sentences), BATCH):
            batch = self.tokenizer(
                list(sentences[first : first + BATCH]),
                return_tensors="pt",
                padding=True,
                truncation=True,
                return_token_type_ids=False,
            )
            written = self.model.generate(**batch, num_beams=beam, do_sample=False)
            texts += self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return texts

    @torch.inference_mode()
    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of the next token at every place of the target: (batch, target, vocabulary)."""
        seen = (source != self.model.config.pad_token_id).long()
        found: Tensor = self.model(input_ids=source, attention_mask=seen, decoder_input_ids=target).logits
        return found
