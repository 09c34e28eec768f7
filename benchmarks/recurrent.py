"""Training speed of the RNN recipes compared with a plain PyTorch loop; the cost of a decoding step.

    python benchmarks/recurrent.py [--quick] [--json] [data.corpus=multi30k data.path=FOLDER ...]

The peer is a textbook implementation: torch.nn.GRU or LSTM over packed sentences, torch.nn.Dropout,
cross-entropy with label smoothing over all logits, Adam. Sizes, batches, dropout and smoothing are the same;
both run in this process, with regard's allocator settings, in interleaved rounds. Target tokens per second,
padding not counted. Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings,
rounds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from harness.rounds import TUNED, Row, as_json, comparison_row, format_table, in_alternating_order
from harness.updates import updates
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.config.models import RnnConfig
from regard.config.schema import parse_assignments
from regard.data.batches import Batch, Batches
from regard.data.parallel import ParallelCorpus
from regard.nn.build import build
from regard.tasks.registry import load_recipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.vocabulary import Vocabulary, make_vocabulary
from regard.training.objectives import Seq2SeqObjective
from regard.training.process import training_process

CASES = ["rnn", "bahdanau", "luong-dot", "luong-general", "luong-concat"]


class Plain(nn.Module):
    """The same model in a textbook implementation."""

    def __init__(self, config: RnnConfig, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.config, self.padding = config, padding
        make = nn.GRU if config.cell == "gru" else nn.LSTM
        size, encoder_size = config.hidden, config.encoder_size
        self.source = nn.Embedding(vocabulary, config.embedding, padding_idx=padding)
        self.target = (
            self.source if config.tie_embeddings == "all" else nn.Embedding(vocabulary, config.embedding)
        )
        context = encoder_size if config.attention == "bahdanau" else 0
        self.encoder = make(
            config.embedding, config.encoder_hidden, batch_first=True, bidirectional=config.bidirectional
        )
        self.decoder = make(config.embedding + context, size, batch_first=True)
        self.query, self.key, self.value = (
            nn.Linear(size, size),
            nn.Linear(encoder_size, size),
            nn.Linear(size, 1),
        )
        self.combine = nn.Linear(encoder_size + size, size)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(size, vocabulary)
        if config.tie_embeddings != "none":
            self.output.weight = self.target.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        nonpad = source != self.padding
        packed = pack_padded_sequence(
            self.dropout(self.source(source)), nonpad.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, last = self.encoder(packed)
        encoded, _ = pad_packed_sequence(encoded, batch_first=True, total_length=source.size(1))
        state = tuple(map(join_directions, last)) if isinstance(last, tuple) else join_directions(last)
        embedded = self.dropout(self.target(target))
        if self.config.attention == "bahdanau":
            states = self.loop(embedded, encoded, nonpad, state)
        else:
            states, _ = self.decoder(embedded, state)
            if self.config.attention == "luong":
                context = self.attend(states, encoded, nonpad)
                states = torch.tanh(self.combine(torch.cat([context, states], -1)))
        return self.output(self.dropout(states))

    def loop(self, embedded: Tensor, encoded: Tensor, nonpad: Tensor, state: Tensor | tuple) -> Tensor:
        states = []
        for step in range(embedded.size(1)):
            previous = (state[0] if isinstance(state, tuple) else state).transpose(0, 1)
            context = self.attend(previous, encoded, nonpad)
            out, state = self.decoder(torch.cat([context, embedded[:, step : step + 1]], -1), state)
            states.append(out)
        return torch.cat(states, 1)

    def attend(self, query: Tensor, encoded: Tensor, nonpad: Tensor) -> Tensor:
        if self.config.score == "dot":
            scores = query @ encoded.transpose(1, 2)
        elif self.config.score == "general":
            scores = query @ self.key(encoded).transpose(1, 2)
        else:
            both = self.query(query).unsqueeze(2) + self.key(encoded).unsqueeze(1)
            scores = self.value(torch.tanh(both)).squeeze(-1)
        weights = torch.softmax(scores.masked_fill(~nonpad.unsqueeze(1), float("-inf")), -1)
        return weights @ encoded


def join_directions(state: Tensor) -> Tensor:
    """(directions, batch, size) -> (1, batch, directions * size)."""
    return torch.cat(list(state), -1).unsqueeze(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and batches: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("assignments", nargs="*", metavar="KEY=VALUE", help="overrides of each recipe")
    options = parser.parse_args()
    cells = ["gru"] if options.quick else ["gru", "lstm"]
    names = ["rnn", "bahdanau", "luong-general"] if options.quick else CASES
    rounds = 3 if options.quick else 5
    with training_process():  # for both
        rows = [training_row(name, cell, options.assignments, rounds) for cell in cells for name in names]
    rows.append(step_row(options.assignments))
    print(
        as_json(rows)
        if options.json
        else format_table(rows, "target tokens per second; steps: microseconds, batch 64")
    )


def training_row(name: str, cell: str, assignments: list[str], rounds: int) -> Row:
    recipe, vocabulary, batches = prepare(name, [*assignments, f"model.cell={cell}"])
    ours, peer = our_step(recipe, vocabulary), plain_step(recipe, vocabulary)
    for batch in batches[:2]:
        ours(batch), peer(batch)

    def speed(step: Callable[[Batch], object]) -> float:
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        return sum(batch.tokens for batch in batches) / (time.perf_counter() - start)

    pairs = in_alternating_order(lambda: speed(ours), lambda: speed(peer), rounds)
    return comparison_row(f"train {name} {cell}", pairs, "a plain loop", TUNED)


def prepare(name: str, assignments: list[str]) -> tuple[TranslationRecipe, Vocabulary, list[Batch]]:
    """The recipe, its vocabulary, and a few of its training batches of all lengths."""
    recipe = load_recipe(name, parse_assignments(assignments))
    assert isinstance(recipe, TranslationRecipe)
    corpus = ParallelCorpus(recipe.data)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = make_vocabulary(recipe, corpus, RunFolder(Path(folder)))
    pairs = [pair for pair, _ in zip(corpus.train(), range(4000), strict=False)]
    encoded = vocabulary.encode_pairs(pairs)
    batches = list(Batches.of_pairs(encoded, recipe.train.batch_tokens, recipe.model.max_length))
    return recipe, vocabulary, batches[:: max(1, len(batches) // 8)]


def build_model(recipe: TranslationRecipe, vocabulary: Vocabulary) -> nn.Module:
    return build(recipe.model, vocabulary.source.size, vocabulary.target.size, vocabulary.source.padding)


def our_step(recipe: TranslationRecipe, vocabulary: Vocabulary) -> Callable[[Batch], object]:
    torch.manual_seed(0)
    model = build_model(recipe, vocabulary).train()
    objective = Seq2SeqObjective(model, vocabulary.target.padding, recipe.train.smoothing)
    return updates(model, objective, recipe.model.width, recipe.train, lr=1e-3)


def plain_step(recipe: TranslationRecipe, vocabulary: Vocabulary) -> Callable[[Batch], object]:
    torch.manual_seed(0)
    assert isinstance(recipe.model, RnnConfig)
    padding = vocabulary.target.padding
    model = Plain(recipe.model, vocabulary.target.size, padding).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> None:
        source, target, labels = (side.padded(padding) for side in (batch.source, batch.target, batch.labels))
        scores = model(source, target)
        loss = functional.cross_entropy(
            scores.flatten(0, 1),
            labels.flatten(),
            ignore_index=padding,
            label_smoothing=recipe.train.smoothing,
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.train.clip_norm)
        optimizer.step()

    return step


@torch.inference_mode()
def step_row(assignments: list[str]) -> Row:
    """Microseconds of a late decoding step compared with an early one: they must not grow."""
    recipe, vocabulary, batches = prepare("bahdanau", assignments)
    model = build_model(recipe, vocabulary).eval()
    source = batches[0].source.padded(vocabulary.source.padding)[:64]
    early = decode(model, source, 10, vocabulary.target.begin)
    late = decode(model, source, 900, vocabulary.target.begin)

    def microseconds(tokens: Tensor, state: object) -> float:
        start = time.perf_counter()
        model.step(tokens, state)
        return 1e6 * (time.perf_counter() - start)

    pairs = in_alternating_order(lambda: microseconds(*late), lambda: microseconds(*early), 200)
    return comparison_row("microseconds of decoding step 901", pairs, "step 11")


def decode(model: nn.Module, source: Tensor, steps: int, begin: int) -> tuple[Tensor, object]:
    """The last tokens and the state after so many steps of greedy decoding."""
    state, tokens = model.start(source), torch.full((len(source),), begin)
    for _ in range(steps):
        scores, state = model.step(tokens, state)
        tokens = scores.argmax(1)
    return tokens, state


if __name__ == "__main__":
    main()
