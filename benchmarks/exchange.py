"""An exported run in other engines: equal translations, BLEU, and speed.

    pip install -c constraints.txt -e '.[exchange,bench]'
    python benchmarks/exchange.py [--quick] [--json] RUN SOURCE REFERENCE

Exports the run to CTranslate2 (float32 and int8; Transformers only), ONNX and Hugging Face (if supported), and
translates the file greedily and with beam 5. Each engine has its own process and takes turns with regard's
(harness/rounds.py describes rounds and ratios).
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
The note has the share of equal translations, BLEU and its difference to regard's. Hugging Face decodes greedily
only; its note also has the largest difference of the logits.
"""

import json
import operator
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness.rounds import (
    OURS,
    PLAIN,
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

from regard.config.models import RnnConfig
from regard.data.corpus import read_pairs
from regard.errors import RegardError
from regard.interop import transformers_models
from regard.metrics.bleu import score_translations
from regard.tasks.translation.export import max_logit_difference
from regard.tasks.translation.exported_translator import EngineName, ExportedTranslator, write_export
from regard.tasks.translation.model import Translator
from regard.tasks.translation.task import is_tokenized

BEAMS = (1, 5)
QUICK = 200
SOURCES = "sources.json"
"""The sentences, in the folder of the exports; each worker writes its translations next to it."""
HUGGING_FACE = "huggingface"


def translation_turn(name: str, folder: str, translate: Callable[[list[str], int], list[str]]) -> Ready:
    """A worker whose turn translates all sentences with a beam size."""
    sources = json.loads((Path(folder) / SOURCES).read_text("utf-8"))
    for beam in BEAMS:
        translate(sources[:64], beam)

    def turn(beam: str) -> float:
        start_time = time.perf_counter()
        texts = translate(sources, int(beam))
        seconds = time.perf_counter() - start_time
        texts_of(folder, name, int(beam)).write_text(json.dumps(texts), "utf-8")
        return len(sources) / seconds

    return Ready(turn)


def texts_of(folder: str, name: str, beam: int) -> Path:
    return Path(folder) / f"{name} {beam}.json"


def ours(run: str, folder: str) -> Ready:
    return translation_turn(OURS, folder, translate_by(Translator.load(Path(run))))


def exported(name: str, engine: EngineName) -> Callable[[str, str], Ready]:
    return lambda _, folder: translation_turn(
        name, folder, translate_by(ExportedTranslator(Path(folder) / name, engine))
    )


def hugging_face(_: str, folder: str) -> Ready:
    opened = transformers_models.TransformersTranslator(Path(folder) / HUGGING_FACE)
    return translation_turn(HUGGING_FACE, folder, lambda sentences, _: opened.translate(sentences, 1))


def translate_by(engine: ExportedTranslator | Translator) -> Callable[[list[str], int], list[str]]:
    return lambda sentences, beam: [
        translation.text for translation in engine.pipeline.translate(sentences, engine.options(beam))
    ]


PEERS = {
    "ctranslate2": "CTranslate2, float32",
    "ctranslate2-int8": "CTranslate2, int8",
    "onnx": "ONNX Runtime",
    HUGGING_FACE: "Hugging Face",
}
WORKERS = {
    OURS: ours,
    "ctranslate2": exported("ctranslate2", "ctranslate2"),
    "ctranslate2-int8": exported("ctranslate2-int8", "ctranslate2"),
    "onnx": exported("onnx", "onnx"),
    HUGGING_FACE: hugging_face,
}


def export(loaded: Translator, folder: Path) -> Iterator[str]:
    """Writes every export that the run supports; yields the names of their workers."""
    if not isinstance(loaded.recipe.model, RnnConfig):
        for name, quantization in (("ctranslate2", None), ("ctranslate2-int8", "int8")):
            write_export(loaded, "ctranslate2", folder / name, quantization)  # type: ignore[arg-type]
            yield name
    write_export(loaded, "onnx", folder / "onnx")
    yield "onnx"
    try:
        write_export(loaded, "huggingface", folder / HUGGING_FACE)
    except RegardError as error:
        print(f"no export to Hugging Face: {error}")
        return
    if transformers_models.is_installed():
        yield HUGGING_FACE


def measure_run(loaded: Translator, pairs: Sequence[tuple[str, str]], rounds: int) -> list[Row]:
    sources, references = [source for source, _ in pairs], loaded.references(pairs)
    tokenized, rows = is_tokenized(loaded.recipe), []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        (Path(folder) / SOURCES).write_text(json.dumps(sources), "utf-8")
        names = list(export(loaded, Path(folder)))
        arguments = str(loaded.folder.path), folder
        own_worker = stack.enter_context(worker(__file__, OURS, *arguments))
        peers = {
            name: Peer(PEERS[name], PLAIN, stack.enter_context(worker(__file__, name, *arguments)))
            for name in names
        }

        def equality_and_bleu(name: str, beam: int) -> str:
            texts, ours = (
                json.loads(texts_of(folder, writer, beam).read_text("utf-8")) for writer in (name, OURS)
            )
            same = sum(map(operator.eq, texts, ours)) / len(texts)
            bleu, own_bleu = (
                score_translations(lines, references, tokenized=tokenized).bleu for lines in (texts, ours)
            )
            note = f"{same:.1%} equal translations, BLEU {bleu:.2f} ({bleu - own_bleu:+.2f})"
            if name == HUGGING_FACE:
                opened = transformers_models.TransformersTranslator(Path(folder) / HUGGING_FACE)
                difference = max_logit_difference(loaded, opened.logits, sources, ours)
                note += f", logits differ by at most {difference:.1e}"
            return note

        for beam in BEAMS:
            engines = [name for name in names if beam == 1 or name != HUGGING_FACE]
            case = f"{len(sources)} sentences, " + (f"beam {beam}" if beam > 1 else "greedy")
            for name, row in zip(
                engines,
                compare(case, own_worker, [peers[name] for name in engines], rounds, str(beam)),
                strict=True,
            ):
                rows.append(row if row.value is None else replace(row, note=equality_and_bleu(name, beam)))
    return rows


def main() -> None:
    parser = argument_parser(__doc__, 5)
    for name in ("run", "source", "reference"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    pairs = list(read_pairs(options.source, options.reference))[: QUICK if options.quick else None]
    rows = measure_run(Translator.load(options.run), pairs, round_count(options))
    print(as_json(rows) if options.json else format_table(rows, "sentences per second"))


if __name__ == "__main__":
    start(main, WORKERS)
