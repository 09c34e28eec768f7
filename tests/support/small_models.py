"""Small run folders with random weights and a vocabulary of number words, for import and export tests."""

import json
from pathlib import Path
from typing import Any

import torch

from regard import tokenization
from regard.config.data import PairDataConfig
from regard.config.models import RnnConfig, TransformerConfig
from regard.nn.build import build
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe, TranslationTrainConfig
from regard.tasks.translation.vocabulary import Vocabulary
from regard.tokenization import Tokenizer
from support.small_translation import ENGLISH, GERMAN

SENTENCES = [
    "drei vier",
    "eins",
    "sieben sechs fünf vier",
    "acht acht zwei",
    "zwei eins fünf sechs drei",
    "vier",
]


def transformer(**settings: Any) -> TransformerConfig:
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "heads": 2, "d_ff": 32, "max_length": 40}
    return TransformerConfig(**{**sizes, **settings})


def rnn(**settings: Any) -> RnnConfig:
    return RnnConfig(**{"kind": "rnn", "embedding": 8, "hidden": 12, "max_length": 40, **settings})


def vocabulary(joint: bool = True, kind: str = "bpe") -> Vocabulary:
    sizes = {"size": 80, "unseen": "unknown"} if kind == "bpe" else {}
    if joint:
        shared = tokenization.train(kind, [" ".join(GERMAN + ENGLISH)] * 3, **sizes)
        return Vocabulary(shared, shared)
    return Vocabulary(
        *(tokenization.train(kind, [" ".join(words)] * 3, **sizes) for words in (GERMAN, ENGLISH))
    )


def write_run(
    folder: Path, model: TransformerConfig | RnnConfig, *, joint: bool = True, kind: str = "bpe", seed: int = 0
) -> Path:
    """A run folder without training; its metrics hold sample sentences as after training."""
    torch.manual_seed(seed)
    words = vocabulary(joint, kind)
    network = build(model, words.source.size, words.target.size, Tokenizer.padding)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)  # also biases and norms
        network.output_bias[Tokenizer.end] += 7.0  # sentences end after a few tokens
    recipe = TranslationRecipe(
        "translation",
        PairDataConfig(source="n.de", target="n.en"),
        TranslationTrainConfig(steps=1),
        model=model,
    )
    run = RunFolder.create(folder)
    words.save(folder)
    run.write_weights(network)
    samples = [{"source": sentence, "translation": ""} for sentence in SENTENCES]
    run.write_metrics([{"kind": "valid", "step": 1, "samples": samples}])
    run.write_recipe(recipe)
    run.write_config(recipe)
    return folder


def rewrite(path: Path, **changes: object) -> None:
    """Changes keys of a JSON file; None removes a key."""
    content = {**json.loads(path.read_text("utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), "utf-8")
