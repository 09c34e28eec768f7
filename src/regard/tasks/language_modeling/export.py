"""A GPT exported, and whether it writes what the run writes: both go on with the same texts."""

import operator
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.config.models import GptConfig
from regard.data.corpus import read_lines
from regard.decoding.generator import REPLACEMENT_CHARACTER, GenerationConfig, Generator
from regard.errors import RegardError
from regard.interop import by_transformers, gpt2
from regard.nn.gpt import GptLanguageModel
from regard.tasks.export_card import writer_card
from regard.tasks.export_check import MOST, Check
from regard.tasks.language_modeling.model import LanguageModel
from regard.tasks.spec import ExportOptions

DRAWN = 20
"""Texts that the model writes itself, where none are given to check it with."""
TOKENS = 40
"""Tokens that are read of each text, and tokens that are written after it; less where the window is small."""


def export(loaded: LanguageModel, options: ExportOptions) -> Check:
    """Write a GPT, and let both go on with the same texts."""
    network = loaded.recipe.model
    if (
        options.format != "huggingface"
        or not isinstance(loaded.model, GptLanguageModel)
        or not isinstance(network, GptConfig)
    ):
        raise RegardError(f"{loaded.folder.path} holds {network}; a GPT can be exported to huggingface")
    prompts = prompts_of(loaded, options.source)
    gpt2.write(options.folder, loaded.model, network, loaded.tokenizer)
    found = wrote_the_same(loaded, options.folder, prompts)
    storage.write_text(options.folder / "README.md", writer_card(network, found))
    return found


def prompts_of(loaded: LanguageModel, source: str | Path | None) -> list[str]:
    """Texts to check with: the lines of a file, or what the model writes by chance after some of its words."""
    tokens = tokens_of(loaded)
    if source is None:
        return [
            each.prompt + each.text
            for each in loaded.complete(words_of(loaded), GenerationConfig(max(1, tokens - 1)))
        ]
    encoded = map(loaded.tokenizer.encode, dict.fromkeys(read_lines(Path(source))))
    found = [loaded.tokenizer.decode(ids[:tokens]) for ids in encoded if ids][:MOST]
    if not found:
        raise RegardError(f"{source} has no text to check the export with")
    return found


def words_of(loaded: LanguageModel) -> list[str]:
    """Tokens from all over the vocabulary that are text by themselves."""
    tokenizer = loaded.tokenizer
    each = (tokenizer.decode([number]) for number in range(tokenizer.size))
    whole = [
        word for word in each if word.strip() and REPLACEMENT_CHARACTER not in word and tokenizer.encode(word)
    ]
    return whole[:: max(1, len(whole) // DRAWN)][:DRAWN]


def tokens_of(loaded: LanguageModel) -> int:
    return TOKENS if loaded.max_length is None else min(TOKENS, loaded.max_length // 3)


@torch.inference_mode()
def wrote_the_same(loaded: LanguageModel, folder: Path, prompts: Sequence[str]) -> Check:
    """The model and what `transformers` makes of the folder; where that is missing, what regard makes of it."""
    config = GenerationConfig(tokens_of(loaded), beam=1)
    logits: Callable[[Tensor], Tensor]
    if by_transformers.is_installed():
        opened = by_transformers.OpenedGenerator(folder)
        name, logits = opened.name, opened.logits
        theirs = [opened.go_on(prompt, config.tokens) for prompt in prompts]
    else:
        again = gpt2.read(folder)
        name, logits = by_transformers.MISSING, again.model.eval()
        generator = Generator(again.model, again.tokenizer, loaded.max_length, torch.device("cpu"))
        theirs = [each.text for each in generator.complete(prompts, config)]
    ours = loaded.generate(prompts, config)
    apart = 0.0
    for prompt, text in zip(prompts, ours, strict=True):
        ids = torch.tensor([loaded.tokenizer.encode(prompt + text)])[:, : loaded.max_length]
        scores = loaded.model(ids.to(loaded.generator.device)).cpu()
        apart = max(apart, float((scores - logits(ids)).abs().max()))
    same = sum(map(operator.eq, ours, theirs))
    return Check(name, len(prompts), {"greedy": same}, "logits", apart)
