"""Fine-tuning a BERT, ours and the peer's: the same sizes, batches, dropout and clipping; and its memory."""

import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from regard.bench.turns import Player, Row, measured, peak_memory, rows_of, steps_by_turns, take_turns
from regard.bench.updates import CLIP, RATE, updates
from regard.config import BertModel
from regard.data.examples import Example, TextBatch, all_batches
from regard.nn.build import build_bert
from regard.training.heads import ClassObjective
from regard.training.process import training_process

VOCABULARY, PADDING, LABELS = 30522, 0, 3
TOKENS = 4096
SIZES = {
    "minilm": ("6 layers, 384/1536, 12 heads", {"layers": 6, "d_model": 384, "heads": 12, "d_ff": 1536}),
    "tiny": ("2 layers, 128/512, 2 heads", {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512}),
}
TURN = {"minilm": 1, "tiny": 4}
"""Batches in one turn: a few seconds at most."""
PEER = "Hugging Face BERT"


def pairs(count: int = 4000) -> list[TextBatch]:
    """Batches of made-up pairs of sentences as long as SICK's, sorted by length as in training."""
    chance = random.Random(1)
    examples = []
    for number in range(count):
        first, second = (max(4, min(40, round(chance.gauss(11, 4)))) for _ in range(2))
        ids = np.array([chance.randrange(1000, VOCABULARY) for _ in range(first + second + 3)])
        examples.append(Example(number, ids, first + 2, (chance.randrange(LABELS),)))
    batches = list(all_batches(examples, PADDING, TOKENS))
    chance.shuffle(batches)
    return batches


def ours(size: str) -> Callable[[TextBatch], object]:
    torch.manual_seed(0)
    config = BertModel(**SIZES[size][1])  # type: ignore[arg-type]
    model = build_bert(config, "classes", VOCABULARY, PADDING, LABELS).train()
    objective = ClassObjective(model)
    return updates(model, objective, config.width)


def transformers(size: str) -> Callable[[TextBatch], object]:
    """Hugging Face's model in the loop its documentation shows, with AdamW as it comes."""
    from transformers import BertConfig, BertForSequenceClassification

    shape = SIZES[size][1]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape["d_model"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=shape["d_ff"],
        num_labels=LABELS,
    )
    model = BertForSequenceClassification(config).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(batch: TextBatch) -> None:
        loss = model(
            input_ids=batch.ids,
            attention_mask=(batch.ids != PADDING).long(),
            token_type_ids=batch.segments,
            labels=batch.gold[:, 0],
        ).loss
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()

    return step


def speeds(size: str, rounds: int) -> list[Row]:
    """Rows of ours beside the peer, where it is installed."""
    with Player(__name__, "ours", size) as mine, Player(__name__, "transformers", size) as theirs:
        found = measured({"ours": mine, PEER: theirs}, rounds)
    return rows_of(f"fine-tuning {SIZES[size][0]}", found)


def memory(size: str) -> float:
    """The most memory, in GB, that a process of ours takes for three updates."""
    command = [sys.executable, "-m", __name__, "memory", size]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    name, size = sys.argv[1:]
    with training_process():
        if name == "memory":
            step = ours(size)
            for batch in pairs()[:3]:
                step(batch)
            print(peak_memory() / 1e9)
        elif name == "ours":
            take_turns(lambda: steps_by_turns(ours(size), pairs(), TURN[size]))
        else:
            take_turns(lambda: steps_by_turns(transformers(size), pairs(), TURN[size]))


if __name__ == "__main__":
    main()
