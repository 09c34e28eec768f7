"""Encoder-decoders with rotary positions and SwiGLU: the native engine beside plain PyTorch.

    python benchmarks/positions_and_activations.py [--quick] [--rounds N] [--sizes tiny small] [--json]

The peer is the same model in a process with REGARD_NATIVE=0; allocator and batches are the same.
harness/rounds.py describes rounds and ratios.
Training is in target tokens a second, decoding in sentences a second.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

from contextlib import ExitStack

import torch
from decoding import CASES, STEPS, Subject, turns_of
from decoding import ours as engine
from harness.rounds import OURS, Peer, Ready, Row, as_json, compare, parser, rounds_of, show, start, worker
from harness.rounds import steps_by_turns as by_turns
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
"""In one turn of decoding, by batch size."""


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
    turn = turns_of(engine(subject), subject.sentences, batch, beam, SENTENCES[batch])
    turn()
    return Ready(turn)


def row(title: str, arguments: list[str], rounds: int) -> list[Row]:
    with ExitStack() as stack:
        native = stack.enter_context(worker(__file__, OURS, *arguments))
        plain = stack.enter_context(worker(__file__, OURS, *arguments, REGARD_NATIVE="0"))
        return compare(title, native, [Peer("REGARD_NATIVE=0", "the same settings", plain)], rounds)


def main() -> None:
    made = parser(__doc__, 7)
    made.add_argument("--sizes", nargs="+", choices=SIZES, help="tiny and small; with --quick tiny")
    options = made.parse_args()
    rows = []
    for size in options.sizes or (["tiny"] if options.quick else ["tiny", "small"]):
        for kind in KINDS:
            name = SIZES[size].rpartition(" ")[2]
            rows += row(f"training {name}, {kind}", [size, kind], rounds_of(options))
            for batch, beam in CASES[::3] if options.quick else CASES:
                title = f"decoding {name}, {kind}, batch {batch}, beam {beam}"
                rows += row(title, [size, kind, str(batch), str(beam)], rounds_of(options))
    print(as_json(rows) if options.json else show(rows, "tokens or sentences a second"))


if __name__ == "__main__":
    start(main, {OURS: ours}, training_process)
