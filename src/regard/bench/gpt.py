"""A GPT trained and gone on with, ours and the peer's: the same sizes, windows, dropout and clipping."""

import sys
import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.bench.turns import Player, Row, measured, rows_of, steps_by_turns, take_turns
from regard.bench.updates import CLIP, RATE, updates
from regard.config import GptModel
from regard.data.examples import TextBatch
from regard.decoding import Chance
from regard.decoding.limits import Limits
from regard.decoding.sampling import Drawing
from regard.decoding.writer import Wish, Writer
from regard.engine.generate import native_gpt
from regard.nn.build import build_gpt
from regard.nn.seq2seq import Decodable
from regard.text import train
from regard.training.heads import LanguageObjective
from regard.training.process import training_process

PEER = "Hugging Face GPT-2"
SIZES: dict[str, dict[str, Any]] = {
    "letters": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "longest": 64, "dropout": 0.0},
    "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "longest": 256, "dropout": 0.1},
    "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "longest": 256, "dropout": 0.1},
}
WORDS = {"letters": 69, "mini": 8000, "small": 8000}
WINDOWS = {"letters": 12, "mini": 16, "small": 8}
"""Windows a batch."""
TURN = {"letters": 20, "mini": 2, "small": 1}
"""Batches in one turn: a few seconds at most."""
LENGTH = 200
"""Tokens written for each prompt."""
PROMPT = 8


def config_of(size: str, longest: int = 0) -> GptModel:
    shape = SIZES[size]
    return GptModel(**{**shape, "attention_dropout": shape["dropout"], "longest": longest or shape["longest"]})


def windows(size: str, chance: torch.Generator) -> TextBatch:
    """A batch of made-up tokens, and those one place further on."""
    shape = (WINDOWS[size], SIZES[size]["longest"] + 1)
    row = torch.randint(WORDS[size], shape, generator=chance)
    ids, marks = row[:, :-1].contiguous(), row[:, 1:].contiguous()
    golds = ids.numel()
    return TextBatch(ids, ids * 0, ids[:, :0], marks, golds, golds, 1, tuple(range(len(ids))))


def batches(size: str) -> list[TextBatch]:
    chance = torch.Generator().manual_seed(1)
    return [windows(size, chance) for _ in range(10 * TURN[size])]


def ours(size: str) -> Callable[[TextBatch], object]:
    torch.manual_seed(0)
    config = config_of(size)
    model = build_gpt(config, "language", WORDS[size]).train()
    objective = LanguageObjective(model)
    return updates(model, objective, config.width)


def theirs(config: GptModel, words: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    make: Any = GPT2LMHeadModel  # it may be there without its types
    return make(
        GPT2Config(
            vocab_size=words,
            n_layer=config.layers,
            n_embd=config.d_model,
            n_head=config.heads,
            n_inner=config.d_ff,
            n_positions=config.longest,
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            attn_pdrop=config.attention_dropout,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def transformers(size: str) -> Callable[[TextBatch], object]:
    """Hugging Face's model in the loop its documentation shows, with AdamW as it comes."""
    model = theirs(config_of(size), WORDS[size]).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

    def step(batch: TextBatch) -> None:
        scores = model(input_ids=batch.ids).logits
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch.marks.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types there
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()

    return step


def prompts(size: str, batch: int) -> Tensor:
    return torch.randint(4, WORDS[size], (batch, PROMPT), generator=torch.Generator().manual_seed(2))


def writing(size: str, batch: int) -> Callable[[], float]:
    """A turn of ours: tokens a second, drawn by chance."""
    torch.manual_seed(0)
    model = build_gpt(config_of(size, 256), "language", WORDS[size]).eval()
    tokenizer = train("bytes", ["a"])  # the ids are what counts; nobody reads the text
    writer = Writer(model, tokenizer, 256, torch.device("cpu"))
    source, wish = prompts(size, batch), Wish(tokens=LENGTH, chance=Chance(1))

    def turn() -> float:
        start = time.perf_counter()
        written(writer, source, wish)
        return batch * LENGTH / (time.perf_counter() - start)

    return turn


@torch.inference_mode()
def written(writer: Writer, source: Tensor, wish: Wish) -> list[float]:
    """Draw so many tokens; the seconds of each step."""
    limits = Limits(None, 0, (0,), room=wish.tokens)
    model = native_gpt(writer.module) or writer.module
    drawing = Drawing(cast(Decodable, model), source, limits, wish.chance, [wish.chance.seed] * len(source))
    seconds = []
    for _ in range(wish.tokens):
        start = time.perf_counter()
        drawing.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def flatness(size: str, batch: int) -> float:
    """What a token costs among the last fifty over what one costs among the first fifty."""
    torch.manual_seed(0)
    model = build_gpt(config_of(size, 256), "language", WORDS[size]).eval()
    writer = Writer(model, train("bytes", ["a"]), 256, torch.device("cpu"))
    runs = [written(writer, prompts(size, batch), Wish(tokens=LENGTH)) for _ in range(6)][1:]
    medians = torch.tensor(runs).median(0).values
    return float(medians[-50:].mean() / medians[:50].mean())


def generating(size: str, batch: int) -> Callable[[], float]:
    """A turn of the peer's `generate`, with its cache as it comes."""
    model = theirs(config_of(size, 256), WORDS[size]).eval()
    source = prompts(size, batch)

    def turn() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(
                source,
                attention_mask=torch.ones_like(source),
                do_sample=True,
                top_k=0,
                max_new_tokens=LENGTH,
                min_new_tokens=LENGTH,
                pad_token_id=0,
            )
        return batch * LENGTH / (time.perf_counter() - start)

    return turn


def training_speeds(size: str, rounds: int) -> list[Row]:
    """Rows of ours beside the peer, where it is installed."""
    with Player(__name__, "ours", size) as mine, Player(__name__, "transformers", size) as other:
        found = measured({"ours": mine, PEER: other}, rounds)
    shape = SIZES[size]
    return rows_of(f"training {shape['layers']} x {shape['d_model']}, window {shape['longest']}", found)


def generation_speeds(size: str, batch: int, rounds: int) -> list[Row]:
    with (
        Player(__name__, "writing", size, str(batch)) as mine,
        Player(__name__, "generating", size, str(batch)) as other,
    ):
        found = measured({"ours": mine, PEER: other}, rounds)
    return rows_of(f"{LENGTH} tokens, {SIZES[size]['layers']} x {SIZES[size]['d_model']}, batch {batch}", found)


def main() -> None:
    name, size, *batch = sys.argv[1:]
    with training_process():
        match name:
            case "ours":
                take_turns(lambda: steps_by_turns(ours(size), batches(size), TURN[size]))
            case "transformers":
                take_turns(lambda: steps_by_turns(transformers(size), batches(size), TURN[size]))
            case "writing":
                take_turns(lambda: writing(size, int(batch[0])))
            case "generating":
                take_turns(lambda: generating(size, int(batch[0])))


if __name__ == "__main__":
    main()
