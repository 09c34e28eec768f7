"""The report of a translation run: scores, curves, samples, worst sentences, BLEU by length, attention."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.config.schema import toml_value
from regard.data.corpus import Pair
from regard.errors import RegardError
from regard.metrics import sentence_chrf
from regard.tasks.metrics_log import (
    NullListener,
    ProgressListener,
    Row,
    environment,
    finite,
    history_of,
    read_metrics,
)
from regard.tasks.training import count_parameters
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Evaluation, Translator
from regard.viz.charts import MIN_BIN
from regard.viz.html_chart import Series, heat_map, line_chart
from regard.viz.html_report import HtmlReport, mark_changes

ATTENTION_LENGTHS = (8, 13, 18)
"""Approximate lengths in words of the three sentences whose attention is drawn."""
MAX_SAMPLES = 8
"""Validations whose samples are listed, from the first to the last."""
MAX_POINTS = 300
"""Points of a curve."""
WORST = 10
"""Test sentences listed with the lowest chrF."""

UNSEEN = (
    "Every test sentence of the picture book has a combination of words, such as an adjective and its noun, "
    "that occurs in no training or validation sentence: so test scores are lower than validation scores."
)


@dataclasses.dataclass(frozen=True)
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
    add_summary(page, loaded, rows, result)
    add_curves(page, rows)
    add_samples(page, rows)
    add_worst(page, result)
    add_lengths(page, result)
    add_attention(page, loaded, attention_sentences(result.pairs, rows))
    add_recipe(page, loaded)
    page.section("Environment", "The machine on which this report was made.")
    page.table((), list({"regard": version, **environment()}.items()))
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
            if row.get("gradient_norm") is not None:
                finite(row["gradient_norm"])
            for sample in row.get("samples", []):
                texts = sample["source"], sample["translation"], sample.get("reference", "")
                if not all(isinstance(text, str) for text in texts):
                    raise ValueError("a sample is not text")
            if row["kind"] == "start":
                dict[str, Any](row["environment"])
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
    return SplitResult(pairs, loaded.evaluate(pairs, log=listener.log))


def add_summary(page: HtmlReport, loaded: Translator, rows: list[Row], result: SplitResult) -> None:
    """The first screen: scores, best step, duration, speed, gradient norm, hardware."""
    page.section("Summary")
    page.facts([*score_facts(result), *training_facts(rows)])
    if result.evaluation is None:
        page.paragraph(f"{result.missing} The scores in the model card, from the end of training:")
        page.code(file_text(loaded, "README.md"))
        return
    quality, recipe = result.evaluation.quality, loaded.recipe
    page.paragraph(f"BLEU signature: {quality.signature}")
    page.paragraph(
        f"Test: {quality.sentences:,} sentences, beam {loaded.options().beam}. "
        f"Validation: at most {recipe.train.validate_sentences:,} sentences, greedy."
        + (f" {UNSEEN}" if recipe.data.corpus == "picturebook" else "")
    )


def score_facts(result: SplitResult) -> Iterator[tuple[str, str, str]]:
    if result.evaluation is None:
        return
    quality, evaluation = result.evaluation.quality, result.evaluation
    speed = quality.sentences / evaluation.seconds
    yield (
        "test BLEU",
        f"{quality.bleu:.2f}",
        f"{quality.sentences:,} sentences, {speed:,.1f} sentences per second",
    )
    yield "test chrF", f"{quality.chrf:.2f}", f"TER {quality.ter:.2f}"
    yield "test loss", f"{evaluation.loss:.3f}", "nats per token"


def training_facts(rows: list[Row]) -> Iterator[tuple[str, str, str]]:
    if not rows:
        return
    history = history_of(rows)
    validations = [row for row in rows if row["kind"] == "valid"]
    if validations:
        marked = [row for row in validations if row.get("best")]
        best = marked[-1] if marked else max(validations, key=lambda row: row["bleu"])
        yield "best step", f"{best['step']:,}", f"validation BLEU {best['bleu']:.2f}, greedy"
    yield "training time", f"{history.minutes:.1f} min", f"{history.steps:,} steps"
    if history.tokens_per_second is not None:
        yield "speed", f"{history.tokens_per_second:,.0f}", "tokens per second of training"
    norms = [row["gradient_norm"] for row in rows if row.get("gradient_norm") is not None]
    if norms:
        yield "gradient norm", f"{norms[-1]:.3g}", f"last; largest {max(norms):.3g}, before clipping"
    for row in rows:
        if row["kind"] == "start":
            machine = row["environment"]
            notes = [f"threads: {machine.get('threads', '?')}", f"GPU: {machine.get('GPU', '?')}"]
            yield "trained on", str(machine.get("machine", "?")), ", ".join(notes)
            return


def add_curves(page: HtmlReport, rows: list[Row]) -> None:
    page.section("Curves", "Point at a chart, or use the arrow keys in it, to read its values.")
    if not rows:
        page.paragraph("metrics.jsonl is missing or damaged: the history of the training run is not available.")
        return
    steps = evenly_spaced_rows([row for row in rows if row["kind"] == "train"], MAX_POINTS)
    validations = [row for row in rows if row["kind"] == "valid"]
    losses = curve("training", steps, "loss", 0), curve("validation", validations, "loss", 1)
    page.charts(
        line_chart(title, "minutes", [line for line in lines if line.x], form=form)
        for title, form, lines in (
            ("Loss (nats per token)", ".3f", losses),
            ("Validation BLEU, greedy", ".2f", (curve("BLEU", validations, "bleu", 1),)),
            ("Learning rate", ".2e", (curve("lr", steps, "lr", 3),)),
            ("Tokens per second", ",.0f", (curve("tokens/s", steps, "tokens_per_second", 2),)),
            ("Gradient norm before clipping", ".3g", (curve("norm", steps, "gradient_norm", 4),)),
        )
        if any(line.x for line in lines)
    )


def curve(name: str, rows: Iterable[Row], key: str, number: int) -> Series:
    """The values of a key against minutes; those of validations with markers."""
    present = [row for row in rows if row.get(key) is not None]
    is_validation = bool(present) and present[0]["kind"] == "valid"
    return Series(
        name, [row["minutes"] for row in present], [row[key] for row in present], number, is_validation
    )


def add_samples(page: HtmlReport, rows: list[Row]) -> None:
    """The sentences of every validation, or else of the last one, each with its translations over time."""
    validations = [row for row in rows if row["kind"] == "valid" and row.get("samples")]
    if not validations:
        return
    hint = (
        "Validation sentences, translated greedily. Words that differ from the translation before are marked."
    )
    page.section("Samples over time", hint)
    shown = evenly_spaced_rows(validations, MAX_SAMPLES)
    sources = [{sample["source"] for sample in row["samples"]} for row in shown]
    common = set.intersection(*sources) or sources[-1]
    for sample in validations[-1]["samples"]:
        if sample["source"] not in common:
            continue
        lines: list[tuple[str, str]] = [("source", sample["source"])]
        if "reference" in sample:
            lines.append(("reference", sample["reference"]))
        translations = [
            (row["step"], other["translation"])
            for row in shown
            for other in row["samples"]
            if other["source"] == sample["source"]
        ]
        before = translations[0][1]
        for step, translation in translations:
            lines.append((f"step {step:,}", mark_changes(translation, before)))
            before = translation
        page.table((), lines)


def evenly_spaced_rows(rows: list[Row], limit: int) -> list[Row]:
    """At most `limit` rows, including the first and the last."""
    if len(rows) <= limit:
        return rows
    return [rows[round(index * (len(rows) - 1) / (limit - 1))] for index in range(limit)]


def add_worst(page: HtmlReport, result: SplitResult) -> None:
    if result.evaluation is None:
        return
    outputs, references = result.evaluation.translations, result.evaluation.references
    scores = sentence_chrf(outputs, references)
    worst = sorted(range(len(scores)), key=scores.__getitem__)[:WORST]
    page.section(
        f"Worst {len(worst)} test sentences",
        "Those with the lowest chrF. Words that differ between reference and output are marked.",
    )
    for number in worst:
        lines = [
            ("source", result.pairs[number][0]),
            ("reference", mark_changes(references[number], outputs[number])),
            ("output", mark_changes(outputs[number], references[number])),
        ]
        page.table((), lines, caption=f"chrF {scores[number]:.1f}")


def add_lengths(page: HtmlReport, result: SplitResult) -> None:
    page.section("BLEU by length")
    if result.evaluation is None:
        page.paragraph(result.missing)
        return
    buckets = result.evaluation.by_length
    page.charts([length_chart([("BLEU", buckets)])])
    page.table(
        ("source words", "sentences", "BLEU"),
        [(str(row["words"]), f"{row['sentences']:,}", f"{row['bleu']:.2f}") for row in buckets],
    )


def length_chart(runs: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> str:
    """BLEU by source length of one or more runs, which have the same bins."""
    buckets = runs[0][1]
    hollow = [row["sentences"] < MIN_BIN for row in buckets]
    spacing = min(0.08, 0.6 / len(runs))
    shifts = [(number - (len(runs) - 1) / 2) * spacing for number in range(len(runs))]
    series = [
        Series(name, [x + shift for x in range(len(rows))], [row["bleu"] for row in rows], number, True, hollow)
        for number, ((name, rows), shift) in enumerate(zip(runs, shifts, strict=True))
    ]
    names = [f"{row['words']}\n({row['sentences']:,})" for row in buckets]
    note = f" (hollow: under {MIN_BIN} sentences)" if any(hollow) else ""
    title = f"BLEU by source length{note}"
    return line_chart(title, "source words (sentences)", series, form=".2f", names=names)


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
    page.section(
        "Attention",
        "Attention from each word of the translation (rows) to the source words (columns).",
    )
    if not texts:
        page.paragraph("There is no sentence to show: the test data and validation samples are not available.")
    pictures = []
    for text in texts:
        maps = loaded.attention(text)
        if not maps.layers:
            page.paragraph("This model has no attention.")
            return
        pictures.append((text, maps, maps.layers[maps.alignment_layer].in_words()))
    most = max((len(layer.keys.labels) for _, _, layer in pictures), default=1)
    for text, maps, layer in pictures:
        page.paragraph(f"{text} → {maps.output.text}")
        label = f"Attention weights of {maps.alignment_layer}, mean of the heads, for “{text}”"
        page.heat_map(heat_map(layer.weights.mean(0), layer.queries.labels, layer.keys.labels, label, most))


def add_recipe(page: HtmlReport, loaded: Translator) -> None:
    """The keys that differ from their defaults, and the whole recipe, folded."""
    page.section("Recipe", "The keys that differ from their defaults.")
    page.table(("key", "value", "default"), list(changed_keys(loaded.recipe)))
    page.code(file_text(loaded, "recipe.toml"), summary="The whole recipe")


def changed_keys(recipe: TranslationRecipe) -> Iterator[tuple[str, str, str]]:
    """Key, value and default of each setting that differs from its default."""
    for section in ("data", "tokenizer", "model", "train", "decode"):
        settings = getattr(recipe, section)
        fields = dataclasses.fields(settings)
        # the size of a model is the default of its numbers
        sized = type(settings)(settings.kind, size=settings.size) if hasattr(settings, "size") else None
        for field in fields:
            value, default = getattr(settings, field.name), field.default
            if sized is not None and field.name != "size":
                default = getattr(sized, field.name)
            if value != default:
                has_default = default is not dataclasses.MISSING and default is not None
                yield f"{section}.{field.name}", toml_value(value), toml_value(default) if has_default else ""


def file_text(loaded: Translator, name: str) -> str:
    try:
        return loaded.folder.file(name).read_text("utf-8")
    except (OSError, ValueError):
        return f"{name} is missing or damaged."
