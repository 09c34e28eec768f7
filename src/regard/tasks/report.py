"""The report of a translation run: curves, samples, scores, BLEU by length, attention, recipe, environment."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure

from regard.data.corpus import Pair
from regard.errors import RegardError
from regard.tasks.metrics_log import NullListener, ProgressListener, Row, finite, history_of, read_metrics
from regard.tasks.training import count_parameters
from regard.tasks.translation.model import Evaluation, Translator
from regard.training.devices import accelerator_name
from regard.viz.attention_maps import AttentionMaps
from regard.viz.charts import draw_lengths, draw_training
from regard.viz.figure import canvas
from regard.viz.heatmaps import draw_matrix
from regard.viz.html_report import HtmlReport

ATTENTION_LENGTHS = (8, 13, 18)
"""Approximate lengths in words of the three sentences whose attention is drawn."""
MAX_SAMPLES = 8
"""Validations whose samples are listed, from the first to the last."""


@dataclass(frozen=True)
class SplitResult:
    """The scores of a run on its test split, or the reason why there are none."""

    pairs: list[Pair]
    evaluation: Evaluation | None
    missing: str = ""


def report(run: str | Path, version: str, listener: ProgressListener | None = None) -> str:
    """The report of a run folder as an HTML page.

    Args:
        run: The folder of a translation run.
        version: Version of regard, for the environment section.
        listener: Receives the progress.

    Raises:
        RegardError: The folder holds no finished translation run.
    """
    loaded = Translator.load(run)
    rows = read_rows(loaded.folder.file("metrics.jsonl"))
    result = evaluate_test_split(loaded, listener or NullListener())
    name = Path(run).resolve().name
    recipe = loaded.recipe
    page = HtmlReport(f"Training report: {name}")
    page.paragraph(
        f"{' to '.join(recipe.data.direction)}; {recipe.model}, {count_parameters(loaded.model):,} parameters."
    )
    add_scores(page, loaded, result)
    add_curves(page, rows)
    add_samples(page, rows)
    add_lengths(page, result)
    add_attention(page, loaded, attention_sentences(result.pairs, rows))
    page.section("Recipe")
    page.code(file_text(loaded, "recipe.toml"))
    page.section("Environment", "The machine on which this report was made.")
    page.table((), list(environment(version).items()))
    return page.html()


def read_rows(path: Path) -> list[Row]:
    """The rows of a metrics.jsonl that can be drawn; none if the file is missing or damaged."""
    try:
        rows = read_metrics(path)
        history_of(rows)
        for row in rows:
            drawn = {"train": ("loss", "lr"), "valid": ("loss", "bleu")}.get(row["kind"], ())
            for key in ("minutes", *drawn) if drawn else ():
                finite(row[key])
            for sample in row.get("samples", []):
                if not isinstance(sample["source"], str) or not isinstance(sample["translation"], str):
                    raise ValueError("a sample is not text")
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
        return []
    return rows


def evaluate_test_split(loaded: Translator, listener: ProgressListener) -> SplitResult:
    try:
        pairs = loaded.test_pairs()
    except RegardError as problem:
        return SplitResult(
            [], None, f"The test data is no longer available ({str(problem).removesuffix('.')})."
        )
    listener.log(f"translating {len(pairs):,} test sentences ...")
    return SplitResult(pairs, loaded.evaluate(pairs))


def add_scores(page: HtmlReport, loaded: Translator, result: SplitResult) -> None:
    evaluation = result.evaluation
    if evaluation is None:
        page.section("Scores", f"{result.missing} The scores in the model card, from the end of training:")
        page.code(file_text(loaded, "README.md"))
        return
    quality = evaluation.quality
    page.section("Scores", f"{quality.sentences:,} test sentences, beam {loaded.options().beam}.")
    page.table(
        ("BLEU", "chrF", "TER", "loss per token", "sentences per second"),
        [
            (
                f"{quality.bleu:.2f}",
                f"{quality.chrf:.2f}",
                f"{quality.ter:.2f}",
                f"{evaluation.loss:.3f}",
                f"{quality.sentences / evaluation.seconds:,.1f}",
            )
        ],
    )
    page.paragraph(f"BLEU signature: {quality.signature}")


def add_curves(page: HtmlReport, rows: list[Row]) -> None:
    page.section("Curves")
    if rows:
        page.picture(draw_training(rows), "Loss, validation BLEU and learning rate against minutes of training")
    else:
        page.paragraph("metrics.jsonl is missing or damaged: the history of the training run is not available.")


def add_samples(page: HtmlReport, rows: list[Row]) -> None:
    validations = [row for row in rows if row["kind"] == "valid" and row.get("samples")]
    if not validations:
        return
    page.section("Samples over time", "Validation sentences, translated greedily at each validation.")
    page.table(
        ("step", "BLEU", "source", "translation"),
        [cells for row in evenly_spaced_rows(validations, MAX_SAMPLES) for cells in sample_cells(row)],
    )


def sample_cells(row: Row) -> list[tuple[str, str, str, str]]:
    """A validation's samples, one per row; step and score only in the first."""
    step_and_score = f"{row['step']:,}", f"{row['bleu']:.2f}"
    return [
        (*(step_and_score if index == 0 else ("", "")), sample["source"], sample["translation"])
        for index, sample in enumerate(row["samples"])
    ]


def evenly_spaced_rows(rows: list[Row], limit: int) -> list[Row]:
    """At most `limit` rows, including the first and the last."""
    if len(rows) <= limit:
        return rows
    return [rows[round(index * (len(rows) - 1) / (limit - 1))] for index in range(limit)]


def add_lengths(page: HtmlReport, result: SplitResult) -> None:
    page.section("BLEU by length")
    if result.evaluation is None:
        page.paragraph(result.missing)
        return
    buckets = result.evaluation.by_length
    figure, (axes,) = canvas(width=6.4, height=3.4)
    draw_lengths(axes, [{"by_length": buckets}])
    page.picture(figure, "BLEU by source length in words", small=True)
    page.table(
        ("source words", "sentences", "BLEU"),
        [(str(row["words"]), f"{row['sentences']:,}", f"{row['bleu']:.2f}") for row in buckets],
    )


def attention_sentences(pairs: Sequence[Pair], rows: list[Row]) -> list[str]:
    """Three sentences of different length from the test split, or else the last logged samples."""
    if pairs:
        texts = dict.fromkeys(source for source, _ in pairs)
        chosen: list[str] = []
        for length in ATTENTION_LENGTHS[: len(texts)]:
            remaining = (text for text in texts if text not in chosen)
            chosen.append(min(remaining, key=lambda text: abs(len(text.split()) - length)))
        return chosen
    samples = [row["samples"] for row in rows if row.get("samples")]
    return [sample["source"] for sample in samples[-1][: len(ATTENTION_LENGTHS)]] if samples else []


def add_attention(page: HtmlReport, loaded: Translator, texts: Sequence[str]) -> None:
    page.section("Attention", "Attention from each word of the translation to the source words.")
    if not texts:
        page.paragraph("There is no sentence to show: the test data and validation samples are not available.")
    for text in texts:
        maps = loaded.attention(text)
        if not maps.layers:
            page.paragraph("This model has no attention.")
            return
        page.paragraph(f"{text} → {maps.output.text}")
        page.picture(draw_alignment(maps), f"Alignment of “{text}”", small=True)


def draw_alignment(maps: AttentionMaps) -> Figure:
    layer = maps.layers[maps.alignment_layer].in_words()
    return draw_matrix(layer.weights.mean(0), layer, maps.alignment_layer)


def file_text(loaded: Translator, name: str) -> str:
    try:
        return loaded.folder.file(name).read_text("utf-8")
    except (OSError, ValueError):
        return f"{name} is missing or damaged."


def environment(version: str) -> dict[str, str]:
    """Versions, machine and threads; `version` is regard's own."""
    return {
        "regard": version,
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "system": platform.platform(terse=True),
        "machine": processor_name(),
        "threads": str(torch.get_num_threads()),
        "GPU": accelerator_name() or "none",
    }


def processor_name() -> str:
    """The processor's model name, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return name or platform.processor() or platform.machine()
