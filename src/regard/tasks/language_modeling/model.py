"""A trained language model: text generation, evaluation, attention maps."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from regard.decoding.generator import Completion, GenerationConfig, Generator
from regard.errors import RegardError
from regard.nn import Recorder
from regard.nn.gpt import GptLanguageModel
from regard.nn.ngram import Ngram
from regard.tasks.encoder.run_folder import TextRunFolder
from regard.tasks.encoder.training import split_path
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.language_modeling.ngram import load_ngrams
from regard.tasks.language_modeling.task import LanguageModelingTask
from regard.tasks.loaded_model import TextModel
from regard.tasks.results import TaskScores
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.model import token_sequence
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer, load
from regard.training.devices import choose_device
from regard.viz.attention_maps import AttentionMaps, Layer

ATTENTION_TOKENS = 40
"""Tokens generated for attention maps without a given continuation."""


class LanguageModel(TextModel):
    """A GPT or an n-gram model."""

    does = "generates text"
    recipe: LanguageModelingRecipe
    tokenizer: Tokenizer

    def __init__(self, folder: RunFolder, recipe: LanguageModelingRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.model, self.tokenizer = load_model(folder, recipe)
        self.max_length = self.model.gpt.max_length if isinstance(self.model, GptLanguageModel) else None
        device = choose_device() if isinstance(self.model, GptLanguageModel) else torch.device("cpu")
        self.generator = Generator(self.model, self.tokenizer, self.max_length, device)

    def input_ids(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self.tokenizer.encode(text)

    def generate(self, prompts: Sequence[str], config: GenerationConfig | None = None) -> list[str]:
        """One continuation per prompt, without the prompt."""
        return [completion.text for completion in self.complete(prompts, config)]

    def complete(self, prompts: Sequence[str], config: GenerationConfig | None = None) -> list[Completion]:
        """One completion per prompt, with the reason why it ends."""
        return self.generator.complete(prompts, config or GenerationConfig())

    def stream(self, prompt: str, config: GenerationConfig | None = None) -> Iterator[str]:
        """The continuation of a prompt, piece by piece as it is generated."""
        return self.generator.stream(prompt, config or GenerationConfig())

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Nats per token and bits per byte of a text, or of the recipe's test or validation text."""
        task = LanguageModelingTask(self.recipe)
        data = self.recipe.data
        path = file or split_path(data, "test") or split_path(data, "valid")
        if path is not None:
            task.read_split("test", path)
        elif (trained_on := split_path(data, "train")) is not None:
            task.read_split("train", trained_on)
            task.splits["test"] = task.splits["valid"]
        if unknown := task.unknown(self.tokenizer, "test"):
            warnings.warn(
                f"the text has {unknown:,} characters that are not in the model's vocabulary", stacklevel=2
            )
        return task.measure(self.model, self.tokenizer, "test")

    @torch.no_grad()
    def attention(self, text: str, target: str | None = None) -> AttentionMaps:
        """Attention weights of every layer and head for a text and its continuation, or a given target."""
        if not isinstance(self.model, GptLanguageModel):
            raise RegardError(f"{self.folder.path} holds {self.recipe.model}, which has no attention")
        if target is None:
            max_tokens = max(1, self.model.gpt.max_length - len(self.input_ids(text)))
            target = self.generate([text], GenerationConfig(tokens=min(ATTENTION_TOKENS, max_tokens)))[0]
        prompt_ids, target_ids = self.input_ids(text), self.input_ids(target)
        ids = [*prompt_ids, *target_ids]
        if len(ids) > self.model.gpt.max_length:
            warnings.warn(
                f"the text has {len(ids)} tokens, the window {self.model.gpt.max_length}: the rest is left out",
                stacklevel=2,
            )
            ids = ids[: self.model.gpt.max_length]
        record = Recorder()
        self.model.gpt(torch.tensor([ids], device=self.generator.device), record=record)
        whole = token_sequence("text", text + target, self.tokenizer, ids)
        continuation = token_sequence("written", target, self.tokenizer, target_ids) if target_ids else whole
        layers = {
            name: Layer(whole, whole, weights[0].float().cpu().numpy()) for name, weights in record.items()
        }
        return AttentionMaps(whole, continuation, layers)


def load_model(folder: RunFolder, recipe: LanguageModelingRecipe) -> tuple[GptLanguageModel | Ngram, Tokenizer]:
    """The model and the tokenizer of a run; shapes are checked before memory is allocated."""
    run = TextRunFolder(folder, recipe)
    if recipe.model.kind == "ngram":
        tokenizer = load(folder.file(JOINT))
        return load_ngrams(folder, tokenizer), tokenizer
    model = run.model()
    assert isinstance(model, GptLanguageModel)
    return model, run.tokenizer()
