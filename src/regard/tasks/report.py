"""A training on one page: curves, samples over time, scores, BLEU by length, attention, recipe, environment."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from regard.data.corpus import Pair
from regard.errors import RegardError
from regard.tasks.environment import environment
from regard.tasks.history import history_of, number
from regard.tasks.metrics_log import NullListener, ProgressListener, read_metrics
from regard.tasks.training import count_parameters
from regard.tasks.translation.model import Evaluation, Translator
from regard.viz.attention_maps import AttentionMaps
from regard.viz.charts import draw_lengths, draw_training
from regard.viz.figure import canvas
from regard.viz.heatmaps import draw_matrix
from regard.viz.html_report import HtmlReport

Rows = list[dict[str, Any]]

LENGTHS = (8, 13, 18)
"""About so many words have the three sentences whose attention is shown."""
MOST_SAMPLES = 8
"""Validations whose samples are shown, from the first to the last."""


@dataclass(frozen=True)
class Measured:
    """A run on its test split, or why it cannot be measured."""

    pairs: list[Pair]
    evaluation: Evaluation | None
    missing: str = ""


def report(run: str | Path, version: str, listener: ProgressListener | None = None) -> str:
    """The page of a run folder, as HTML; `version` is regard's own."""
    loaded = Translator.load(run)
    rows = logger_of(loaded.folder.file("metrics.jsonl"))
    measured = measure(loaded, listener or NullListener())
    name = Path(run).resolve().name
    recipe = loaded.recipe
    page = HtmlReport(f"Training report: {name}")
    page.paragraph(
        f"{recipe.data.source_language} to {recipe.data.target_language}; {recipe.model}, "
        f"{count_parameters(loaded.model):,} parameters."
    )
    add_scores(page, loaded, measured)
    add_curves(page, rows)
    add_samples(page, rows)
    add_lengths(page, measured)
    add_attention(page, loaded, sentences(measured.pairs, rows))
    page.section("Recipe")
    page.code(text_of(loaded, "recipe.toml"))
    page.section("Environment", "Where this report was made.")
    page.table((), list(environment(version).items()))
    return page.html()


def logger_of(path: Path) -> Rows:
    """The rows of a metrics.jsonl that can be drawn; none where the file is missing or damaged."""
    try:
        rows = read_metrics(path)
        history_of(rows)
        for row in rows:
            drawn = {"train": ("loss", "lr"), "valid": ("loss", "bleu")}.get(row["kind"], ())
            for key in ("minutes", *drawn) if drawn else ():
                number(row[key])
            for sample in row.get("samples", []):
                if not isinstance(sample["source"], str) or not isinstance(sample["translation"], str):
                    raise ValueError("a sample is no text")
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
        return []
    return rows


def measure(loaded: Translator, listener: ProgressListener) -> Measured:
    try:
        pairs = loaded.test_pairs()
    except RegardError as problem:
        return Measured([], None, f"The test data is not here any more ({str(problem).removesuffix('.')}).")
    listener.log(f"translating {len(pairs):,} test sentences ...")
    return Measured(pairs, loaded.evaluate(pairs))


def add_scores(page: HtmlReport, loaded: Translator, measured: Measured) -> None:
    found = measured.evaluation
    if found is None:
        page.section("Scores", f"{measured.missing} What the model card says of the time it was:")
        page.code(text_of(loaded, "README.md"))
        return
    quality = found.quality
    page.section("Scores", f"{quality.sentences:,} test sentences, beam {loaded.options().beam}.")
    page.table(
        ("BLEU", "chrF", "TER", "loss a token", "sentences a second"),
        [
            (
                f"{quality.bleu:.2f}",
                f"{quality.chrf:.2f}",
                f"{quality.ter:.2f}",
                f"{found.loss:.3f}",
                f"{quality.sentences / found.seconds:,.1f}",
            )
        ],
    )
    page.paragraph(f"BLEU signature: {quality.signature}")


def add_curves(page: HtmlReport, rows: Rows) -> None:
    page.section("Curves")
    if rows:
        page.picture(draw_training(rows), "Loss, validation BLEU and learning rate against minutes of training")
    else:
        page.paragraph("metrics.jsonl is missing or damaged: nothing is known of the training.")


def add_samples(page: HtmlReport, rows: Rows) -> None:
    told = [row for row in rows if row["kind"] == "valid" and row.get("samples")]
    if not told:
        return
    page.section("Samples over time", "Validation sentences, translated greedily while the model learned.")
    page.table(
        ("step", "BLEU", "source", "translation"),
        [cells for row in evenly(told, MOST_SAMPLES) for cells in sample_cells(row)],
    )


def sample_cells(row: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A validation's samples, one a row; step and score stand beside the first."""
    told = f"{row['step']:,}", f"{row['bleu']:.2f}"
    return [
        (*(told if place == 0 else ("", "")), sample["source"], sample["translation"])
        for place, sample in enumerate(row["samples"])
    ]


def evenly(rows: Rows, most: int) -> Rows:
    """At most so many rows, the first and the last among them."""
    if len(rows) <= most:
        return rows
    return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def add_lengths(page: HtmlReport, measured: Measured) -> None:
    page.section("BLEU by length")
    if measured.evaluation is None:
        page.paragraph(measured.missing)
        return
    buckets = measured.evaluation.by_length
    figure, (axes,) = canvas(width=6.4, height=3.4)
    draw_lengths(axes, [{"by_length": buckets}])
    page.picture(figure, "BLEU by source length in words", small=True)
    page.table(
        ("source words", "sentences", "BLEU"),
        [(str(row["words"]), f"{row['sentences']:,}", f"{row['bleu']:.2f}") for row in buckets],
    )


def sentences(pairs: Sequence[Pair], rows: Rows) -> list[str]:
    """Three sentences of different length from the test split, or else the last logged samples."""
    if pairs:
        texts = dict.fromkeys(source for source, _ in pairs)
        found: list[str] = []
        for wanted in LENGTHS[: len(texts)]:
            left = (text for text in texts if text not in found)
            found.append(min(left, key=lambda text: abs(len(text.split()) - wanted)))
        return found
    samples = [row["samples"] for row in rows if row.get("samples")]
    return [sample["source"] for sample in samples[-1][: len(LENGTHS)]] if samples else []


def add_attention(page: HtmlReport, loaded: Translator, texts: Sequence[str]) -> None:
    page.section("Attention", "Which source words each translated word looked at.")
    if not texts:
        page.paragraph("There is no sentence to show: the test data is gone, and no validation left samples.")
    for text in texts:
        maps = loaded.attention(text)
        if not maps.layers:
            page.paragraph("This model has no attention weights to show.")
            return
        page.paragraph(f"{text} → {maps.output.text}")
        page.picture(draw_aligned(maps), f"Alignment of “{text}”", small=True)


def draw_aligned(maps: AttentionMaps) -> Figure:
    layer = maps.layers[maps.alignment_layer].in_words()
    return draw_matrix(layer.weights.mean(0), layer, maps.alignment_layer)


def text_of(loaded: Translator, name: str) -> str:
    try:
        return loaded.folder.file(name).read_text("utf-8")
    except (OSError, ValueError):
        return f"{name} is missing or damaged."
