"""A run in other engines: how much of the text is the same, BLEU, and speed.

    pip install -c constraints.txt -e '.[exchange,bench]'
    python benchmarks/exchange.py [--quick] [--json] RUN SOURCE REFERENCE

Exports the run to CTranslate2 (float32 and int8; not a recurrent one), ONNX and Hugging Face (where it can be),
and translates the file greedily and with beam 5, regard first: the threads of other engines in the same process
would slow it down, as they do each other. Against CTranslate2, benchmarks/decoding.py has a process for each.
Rows: case, peer, same (share of texts that are the same), bleu and difference (to regard's), ours and value
(sentences a second), ratio. Hugging Face searches greedily only, and has `logits` too: the largest difference
over all sentences.
"""

import argparse
import json
import operator
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.arithmetic import enable_reproducible_mkl
from regard.config import RnnModel
from regard.data.corpus import read_pairs
from regard.errors import RegardError
from regard.interop import by_transformers
from regard.metrics import measure
from regard.tasks import load_translator
from regard.tasks.checks import logits_apart
from regard.tasks.engines import LoadedEngine
from regard.tasks.formats import write
from regard.tasks.translation.model import LoadedTranslator
from regard.tasks.translation.task import is_tokenised

BEAMS = (1, 5)
QUICK = 200
Row = dict[str, str | float]
Translate = Callable[[list[str], int], list[str]]
"""Sentences and a beam."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} sentences, one round")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    for name in ("run", "source", "reference"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    enable_reproducible_mkl()  # as the command line does
    loaded = load_translator(options.run)
    pairs = list(read_pairs(options.source, options.reference))[: QUICK if options.quick else None]
    rows = measured(loaded, pairs, 1 if options.quick else 3)
    print(json.dumps(rows) if options.json else shown(rows))


def measured(loaded: LoadedTranslator, pairs: list[tuple[str, str]], rounds: int) -> list[Row]:
    sources, references = [source for source, _ in pairs], loaded.references(pairs)
    rows: list[Row] = []
    ours = {beam: timed(translate_by(loaded), sources, beam, rounds) for beam in BEAMS}
    with tempfile.TemporaryDirectory() as place:
        for engine in engines(loaded, Path(place)):
            for beam in BEAMS:
                theirs = timed(translate_by(engine), sources, beam, rounds)
                rows.append(compared(loaded, engine.name, beam, ours[beam], theirs, references))
            del engine
        folder = Path(place) / "huggingface"
        if by_transformers.is_installed() and folder.exists():
            opened = by_transformers.OpenedTranslator(folder)
            apart = logits_apart(loaded, opened.logits, sources, ours[1].texts)
            theirs = timed(opened.translate, sources, 1, 1)
            rows.append({**compared(loaded, opened.name, 1, ours[1], theirs, references), "logits": apart})
    return rows


def engines(loaded: LoadedTranslator, place: Path) -> Iterator[LoadedEngine]:
    """One engine after the other: the threads of one that waits would slow down the next."""
    if not isinstance(loaded.recipe.model, RnnModel):
        for kind in (None, "int8"):
            folder = place / f"ctranslate2-{kind}"
            write(loaded, "ctranslate2", folder, kind)
            yield LoadedEngine(folder, "ctranslate2")
    write(loaded, "onnx", place / "onnx")
    yield LoadedEngine(place / "onnx", "onnx")
    try:
        write(loaded, "huggingface", place / "huggingface")
    except RegardError as problem:
        print(f"not for Hugging Face: {problem}")


def translate_by(engine: LoadedEngine | LoadedTranslator) -> Translate:
    return lambda sentences, beam: [
        each.text for each in engine.translator.translate(sentences, engine.options(beam))
    ]


@dataclass(frozen=True)
class Timed:
    """What an engine wrote, and its median of sentences a second."""

    texts: list[str]
    speed: float


def timed(translate: Translate, sources: list[str], beam: int, rounds: int) -> Timed:
    translate(sources[:64], beam)  # for warming up
    speeds, texts = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        texts = translate(sources, beam)
        speeds.append(len(sources) / (time.perf_counter() - start))
    return Timed(texts, statistics.median(speeds))


def compared(
    loaded: LoadedTranslator, peer: str, beam: int, ours: Timed, theirs: Timed, references: list[str]
) -> Row:
    tokenised = is_tokenised(loaded.recipe)
    mine, bleu = (measure(each.texts, references, tokenised=tokenised).bleu for each in (ours, theirs))
    return {
        "case": f"beam {beam}" if beam > 1 else "greedy",
        "peer": peer,
        "sentences": len(ours.texts),
        "same": sum(map(operator.eq, ours.texts, theirs.texts)) / len(ours.texts),
        "bleu": bleu,
        "difference": bleu - mine,
        "ours": ours.speed,
        "value": theirs.speed,
        "ratio": ours.speed / theirs.speed,
    }


def shown(rows: list[Row]) -> str:
    head = f"{'case':8} {'peer':32} {'same text':>9} {'BLEU':>6} {'to ours':>8}"
    lines = [
        f"{row['case']:8} {row['peer']:32} {row['same']:>9.1%} {row['bleu']:>6.2f} {row['difference']:>+8.2f}"
        f" {row['ours']:>8.0f} {row['value']:>8.0f} {row['ratio']:>6.2f}"
        + (f"   logits differ by at most {row['logits']:.1e}" if "logits" in row else "")
        for row in rows
    ]
    told = f"{rows[0]['sentences']} sentences; speeds in sentences a second"
    return "\n".join([f"{head} {'ours':>8} {'its':>8} {'ratio':>6}", *lines, told])


if __name__ == "__main__":
    main()
