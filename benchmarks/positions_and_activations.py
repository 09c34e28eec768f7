"""Encoder-decoders with rotary positions and SwiGLU: the native engine compared with plain PyTorch.

    python benchmarks/positions_and_activations.py [--quick] [--rounds N] [--sizes tiny small] [--json]

The peer is the same model in a process with REGARD_NATIVE=0; allocator and batches are the same.
harness/rounds.py describes rounds and ratios.
Training is in target tokens per second, decoding in sentences per second.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

from contextlib import ExitStack

import torch
from decoding import CASES, STEPS, Subject, decoding_turn
from decoding import ours as engine
from harness.rounds import (
    OURS,
    Peer,
    Ready,
    Row,
    argument_parser,
    as_json,
    compare,
    format_table,
    round_count,
    start,
    worker,
)
from harness.rounds import training_turns as by_turns
from training import SIZES, TURN, captions, config_of, our_step

from regard.config.data import PairDataConfig
from regard.nn.build import build
from regard.tasks.translation.config import TranslationRecipe, TranslationTrainConfig
from regard.tokenization import Tokenizer
from regard.training.process import training_process

KINDS = {
    "rotary": {"position": "rotary"},
    "SwiGLU": {"activation": "swiglu"},
    "rotary and SwiGLU": {"position": "rotary", "activation": "swiglu"},
}
SENTENCES = {1: 8, 64: 64}
"""Sentences per decoding turn, by batch size."""


def ours(size: str, kind: str, *case: str) -> Ready:
    config = config_of(size, **KINDS[kind])
    if not case:
        return by_turns(our_step(config), captions(), TURN[size])
    torch.manual_seed(0)
    model = build(config, 8000, 8000, Tokenizer.padding).eval()
    with torch.no_grad():
        model.output_bias[Tokenizer.end] = -1e4
    data = PairDataConfig(source="random", target="ids")
    recipe = TranslationRecipe("translation", data, TranslationTrainConfig(steps=1), model=config)
    sentences = torch.randint(4, 8000, (512, 14), generator=torch.Generator().manual_seed(1)).tolist()
    subject = Subject(model, recipe, [[*ids, Tokenizer.end] for ids in sentences], STEPS)
    batch, beam = map(int, case)
    turn = decoding_turn(engine(subject), subject.sentences, batch, beam, SENTENCES[batch])
    turn()
    return Ready(turn)


def compare_case(title: str, arguments: list[str], rounds: int) -> list[Row]:
    with ExitStack() as stack:
        native = stack.enter_context(worker(__file__, OURS, *arguments))
        plain = stack.enter_context(worker(__file__, OURS, *arguments, REGARD_NATIVE="0"))
        return compare(title, native, [Peer("REGARD_NATIVE=0", "the same settings", plain)], rounds)


def main() -> None:
    parser = argument_parser(__doc__, 7)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="tiny and small; with --quick tiny")
    options = parser.parse_args()
    rows = []
    for size in options.sizes or (["tiny"] if options.quick else ["tiny", "small"]):
        for kind in KINDS:
            name = SIZES[size].rpartition(" ")[2]
            rows += compare_case(f"training {name}, {kind}", [size, kind], round_count(options))
            for batch, beam in CASES[::3] if options.quick else CASES:
                title = f"decoding {name}, {kind}, batch {batch}, beam {beam}"
                rows += compare_case(title, [size, kind, str(batch), str(beam)], round_count(options))
    print(as_json(rows) if options.json else format_table(rows, "tokens or sentences per second"))


if __name__ == "__main__":
    start(main, {OURS: ours}, training_process)
