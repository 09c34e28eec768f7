"""A model of language, opened: it goes on with texts, is measured, and shows where it looks."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from regard.decoding.generator import Completion, GenerationConfig, Generator
from regard.errors import RegardError
from regard.nn import Recorder
from regard.nn.gpt import GptLanguageModel
from regard.nn.ngram import Ngram
from regard.tasks.encoder.run_folder import TextFolder
from regard.tasks.encoder.training import TaskScores, file_of
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.language_modeling.ngram import open_counts
from regard.tasks.language_modeling.task import Language
from regard.tasks.loaded_model import TextModel
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.model import side
from regard.tasks.translation.vocabulary import JOINT
from regard.tokenization import Tokenizer, load
from regard.training.devices import choose_device
from regard.viz.attention_maps import AttentionMaps, Layer

LOOKED_AT = 40
"""Tokens that are written to look into, where nothing else is said."""


class LanguageModel(TextModel):
    """A GPT, or counts of tokens, that goes on with texts."""

    does = "goes on with a text"
    recipe: LanguageModelingRecipe
    tokenizer: Tokenizer

    def __init__(self, folder: RunFolder, recipe: LanguageModelingRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.model, self.tokenizer = opened(folder, recipe)
        self.max_length = self.model.gpt.max_length if isinstance(self.model, GptLanguageModel) else None
        place = choose_device() if isinstance(self.model, GptLanguageModel) else torch.device("cpu")
        self.writer = Generator(self.model, self.tokenizer, self.max_length, place)

    def input_ids(self, text: str) -> list[int]:
        """The ids of a text; nothing stands around it."""
        return self.tokenizer.encode(text)

    def generate(self, prompts: Sequence[str], config: GenerationConfig | None = None) -> list[str]:
        """What comes after each prompt; the prompt itself is not in it."""
        return [each.text for each in self.write(prompts, config)]

    def write(self, prompts: Sequence[str], config: GenerationConfig | None = None) -> list[Completion]:
        """The same, with why each text ends."""
        return self.writer.write(prompts, config or GenerationConfig())

    def stream(self, prompt: str, config: GenerationConfig | None = None) -> Iterator[str]:
        """What comes after a prompt, piece by piece as it is written."""
        return self.writer.stream(prompt, config or GenerationConfig())

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Nats a token and bits a byte of a text, or of the test or validation text of the recipe."""
        work = Language(self.recipe)
        data = self.recipe.data
        found = file or file_of(data, "test") or file_of(data, "valid")
        if found is not None:
            work.open("test", found)
        elif (trained_on := file_of(data, "train")) is not None:
            work.open("train", trained_on)
            work.splits["test"] = work.splits["valid"]
        if unknown := work.unknown(self.tokenizer, "test"):
            warnings.warn(f"the text has {unknown:,} characters that the model never saw", stacklevel=2)
        return work.measure(self.model, self.tokenizer, "test")

    @torch.no_grad()
    def attention(self, text: str, target: str | None = None) -> AttentionMaps:
        """Where every layer and head looks while it goes on with a text, or with the given target."""
        if not isinstance(self.model, GptLanguageModel):
            raise RegardError(f"{self.folder.path} holds {self.recipe.model}: it looks at nothing")
        if target is None:
            room = max(1, self.model.gpt.max_length - len(self.input_ids(text)))
            target = self.generate([text], GenerationConfig(tokens=min(LOOKED_AT, room)))[0]
        prompt, said = self.input_ids(text), self.input_ids(target)
        ids = [*prompt, *said]
        if len(ids) > self.model.gpt.max_length:
            warnings.warn(
                f"the text has {len(ids)} tokens, the window {self.model.gpt.max_length}: the rest is left out",
                stacklevel=2,
            )
            ids = ids[: self.model.gpt.max_length]
        record = Recorder()
        self.model.gpt(torch.tensor([ids], device=self.writer.device), record=record)
        whole = side("text", text + target, self.tokenizer, ids)
        written = side("written", target, self.tokenizer, said) if said else whole
        layers = {
            name: Layer(whole, whole, weights[0].float().cpu().numpy()) for name, weights in record.items()
        }
        return AttentionMaps(whole, written, layers)


def opened(folder: RunFolder, recipe: LanguageModelingRecipe) -> tuple[GptLanguageModel | Ngram, Tokenizer]:
    """The model of a run with its tokens; nothing is believed before the shapes agree."""
    run = TextFolder(folder, recipe)
    if recipe.model.kind == "ngram":
        tokenizer = load(folder.file(JOINT))
        return open_counts(folder, tokenizer), tokenizer
    model = run.model()
    assert isinstance(model, GptLanguageModel)
    return model, run.tokenizer()
