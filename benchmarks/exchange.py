"""A run in other engines: how much of the text is the same, BLEU, and speed.

    pip install -c constraints.txt -e '.[exchange,bench]'
    python benchmarks/exchange.py [--quick] [--json] RUN SOURCE REFERENCE

Exports the run to CTranslate2 (float32 and int8; not a recurrent one), ONNX and Hugging Face (where it can be),
and translates the file greedily and with beam 5, by turns with regard. Rows: case, peer, same (share of texts
that are the same), bleu and difference (to regard's), ours and value (sentences a second), ratio. Hugging Face
searches greedily only, and has `logits` too: the largest difference over all sentences.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regard.config import RnnModel
from regard.data.corpus import read_pairs
from regard.errors import RegardError
from regard.evaluation import measure
from regard.exchange import by_transformers
from regard.jobs import load_translator
from regard.jobs.checks import logits_apart
from regard.jobs.engines import LoadedEngine
from regard.jobs.formats import write
from regard.jobs.loaded import LoadedTranslator
from regard.jobs.translation import is_tokenised

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
    loaded = load_translator(options.run)
    pairs = list(read_pairs(options.source, options.reference))[: QUICK if options.quick else None]
    rows = measured(loaded, pairs, 1 if options.quick else 3)
    print(json.dumps(rows) if options.json else shown(rows))


def measured(loaded: LoadedTranslator, pairs: list[tuple[str, str]], rounds: int) -> list[Row]:
    sources, references = [source for source, _ in pairs], loaded.references(pairs)
    with tempfile.TemporaryDirectory() as place:
        peers = opened(loaded, Path(place))
        rows = [row for beam in BEAMS for row in compared(loaded, peers, beam, sources, references, rounds)]
        folder = Path(place) / "huggingface"
        if by_transformers.is_installed() and folder.exists():
            theirs = by_transformers.Opened(folder)
            ours = loaded.translate(sources, beam=1)
            apart = logits_apart(loaded, theirs.logits, sources, ours)
            rows += [
                {**row, "logits": apart}
                for row in compared(loaded, {theirs.name: theirs.translate}, 1, sources, references, 1)
            ]
    return rows


def opened(loaded: LoadedTranslator, place: Path) -> dict[str, Translate]:
    """What each engine translates with."""
    peers: dict[str, Translate] = {}
    if not isinstance(loaded.recipe.model, RnnModel):
        for kind in (None, "int8"):
            folder = place / f"ctranslate2-{kind}"
            write(loaded, "ctranslate2", folder, kind)
            engine = LoadedEngine(folder, "ctranslate2")
            peers[engine.name] = translate_by(engine)
    write(loaded, "onnx", place / "onnx")
    engine = LoadedEngine(place / "onnx", "onnx")
    peers[engine.name] = translate_by(engine)
    try:
        write(loaded, "huggingface", place / "huggingface")
    except RegardError as problem:
        print(f"not for Hugging Face: {problem}")
    return peers


def translate_by(engine: LoadedEngine | LoadedTranslator) -> Translate:
    return lambda sentences, beam: [
        each.text for each in engine.translator.translate(sentences, engine.options(beam))
    ]


def compared(
    loaded: LoadedTranslator,
    peers: dict[str, Translate],
    beam: int,
    sources: list[str],
    references: list[str],
    rounds: int,
) -> list[Row]:
    """A row for each peer; all take turns."""
    players = {"": translate_by(loaded), **peers}
    texts: dict[str, list[str]] = {}
    speeds: dict[str, list[float]] = {name: [] for name in players}
    for translate in players.values():
        translate(sources[:64], beam)  # for warming up
    for _ in range(rounds):
        for name, translate in players.items():
            start = time.perf_counter()
            texts[name] = translate(sources, beam)
            speeds[name].append(len(sources) / (time.perf_counter() - start))
    tokenised = is_tokenised(loaded.recipe)
    bleu = {name: measure(each, references, tokenised=tokenised).bleu for name, each in texts.items()}
    speed = {name: statistics.median(each) for name, each in speeds.items()}
    return [
        {
            "case": f"beam {beam}" if beam > 1 else "greedy",
            "peer": name,
            "sentences": len(sources),
            "same": sum(one == other for one, other in zip(texts[""], texts[name], strict=True)) / len(sources),
            "bleu": bleu[name],
            "difference": bleu[name] - bleu[""],
            "ours": speed[""],
            "value": speed[name],
            "ratio": speed[""] / speed[name],
        }
        for name in peers
    ]


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
