"""Export of a GPT, checked by generating from the same prompts with the run and the export."""

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
from regard.interop import huggingface_gpt2, transformers_models
from regard.nn.gpt import GptLanguageModel
from regard.tasks.export import MAX_CHECK_INPUTS, ExportCheck
from regard.tasks.export_card import language_model_export_card
from regard.tasks.language_modeling.model import LanguageModel
from regard.tasks.spec import ExportOptions

SAMPLED_PROMPTS = 20
"""Prompts that the model generates itself, if there is no file of prompts."""
MAX_TOKENS = 40
"""Tokens per prompt, and tokens generated after it; fewer where the context window is small."""


def export(loaded: LanguageModel, options: ExportOptions) -> ExportCheck:
    """Write a GPT, and compare texts and logits of the run and the export."""
    network = loaded.recipe.model
    if (
        options.format != "huggingface"
        or not isinstance(loaded.model, GptLanguageModel)
        or not isinstance(network, GptConfig)
    ):
        raise RegardError(f"{loaded.folder.path} holds {network}; a GPT can be exported to huggingface")
    prompts = prompts_of(loaded, options.source)
    huggingface_gpt2.write(options.folder, loaded.model, network, loaded.tokenizer)
    check = compare(loaded, options.folder, prompts)
    storage.write_text(options.folder / "README.md", language_model_export_card(network, check))
    return check


def prompts_of(loaded: LanguageModel, source: str | Path | None) -> list[str]:
    """Prompts for the check: the lines of a file, or texts sampled from the model."""
    tokens = tokens_of(loaded)
    if source is None:
        return [
            completion.prompt + completion.text
            for completion in loaded.complete(words_of(loaded), GenerationConfig(max(1, tokens - 1)))
        ]
    encoded = map(loaded.tokenizer.encode, dict.fromkeys(read_lines(Path(source))))
    prompts = [loaded.tokenizer.decode(ids[:tokens]) for ids in encoded if ids][:MAX_CHECK_INPUTS]
    if not prompts:
        raise RegardError(f"{source} has no text to check the export with")
    return prompts


def words_of(loaded: LanguageModel) -> list[str]:
    """Tokens from the whole vocabulary that are valid text by themselves."""
    tokenizer = loaded.tokenizer
    decoded = (tokenizer.decode([number]) for number in range(tokenizer.size))
    words = [
        word
        for word in decoded
        if word.strip() and REPLACEMENT_CHARACTER not in word and tokenizer.encode(word)
    ]
    return words[:: max(1, len(words) // SAMPLED_PROMPTS)][:SAMPLED_PROMPTS]


def tokens_of(loaded: LanguageModel) -> int:
    return MAX_TOKENS if loaded.max_length is None else min(MAX_TOKENS, loaded.max_length // 3)


@torch.inference_mode()
def compare(loaded: LanguageModel, folder: Path, prompts: Sequence[str]) -> ExportCheck:
    """Compare greedy texts and logits with those of `transformers`, or if it is missing, of regard."""
    config = GenerationConfig(tokens_of(loaded), beam=1)
    logits: Callable[[Tensor], Tensor]
    if transformers_models.is_installed():
        opened = transformers_models.TransformersGpt(folder)
        name, logits = opened.name, opened.logits
        theirs = [opened.generate(prompt, config.tokens) for prompt in prompts]
    else:
        imported = huggingface_gpt2.read(folder)
        name, logits = transformers_models.FALLBACK_NAME, imported.model.eval()
        generator = Generator(imported.model, imported.tokenizer, loaded.max_length, torch.device("cpu"))
        theirs = [completion.text for completion in generator.complete(prompts, config)]
    ours = loaded.generate(prompts, config)
    max_difference = 0.0
    for prompt, text in zip(prompts, ours, strict=True):
        ids = torch.tensor([loaded.tokenizer.encode(prompt + text)])[:, : loaded.max_length]
        scores = loaded.model(ids.to(loaded.generator.device)).cpu()
        max_difference = max(max_difference, float((scores - logits(ids)).abs().max()))
    same = sum(map(operator.eq, ours, theirs))
    return ExportCheck(name, len(prompts), {"greedy": same}, "logits", max_difference)
