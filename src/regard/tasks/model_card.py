"""The model card (README.md) of a run: data, model, training and scores, BLEU with its signature."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.filters import FilterReport
from regard.metrics import Quality
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.vocabulary import Vocabulary
from regard.training.state import Training


def translation_card(
    recipe: TranslationRecipe,
    quality: Quality,
    loss: float,
    training: Training,
    report: FilterReport,
    vocabulary: Vocabulary,
) -> str:
    """The README.md of a translation run."""
    data, model = recipe.data, recipe.model
    corpus = f"{data.corpus} ({data.form})" if data.corpus != "files" else f"{data.source}, {data.target}"
    languages = " to ".join(map(escape, data.direction))
    parameters = sum(parameter.numel() for parameter in training.model.parameters())
    return f"""# Translation from {languages}

| | |
|---|---|
| data | {escape(corpus)}: {report} |
| vocabulary | {vocabulary} |
| model | {model}, {parameters:,} parameters |
| engine | {training.engine} |
| training | {training.step:,} steps, {training.seconds / 60:.1f} minutes, seed {recipe.train.seed} |

On {quality.sentences:,} test sentences, beam {recipe.decode.beam}:

| BLEU | chrF | TER | loss per token |
|---|---|---|---|
| {quality.bleu:.2f} | {quality.chrf:.2f} | {quality.ter:.2f} | {loss:.3f} |

BLEU signature: `{quality.signature}`
"""


def text_card(
    task: str,
    files: Sequence[str],
    model: str,
    facts: Mapping[str, Any],
    scores: Mapping[str, float],
    rows: Sequence[Mapping[str, Any]],
) -> str:
    """The README.md of a run of any other task.

    Args:
        task: Its name.
        files: The data files.
        model: The model in words.
        facts: Further rows of the first table.
        scores: Scores by name.
        rows: Scores per label.
    """
    names, values = " | ".join(scores), " | ".join(f"{value:.4f}" for value in scores.values())
    by_label = ""
    if rows:
        columns = list(rows[0])
        lines = [f"| {' | '.join(cell(row[column]) for column in columns)} |" for row in rows]
        by_label = "\n".join([f"\n| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *lines])
    fact_lines = "\n".join(f"| {name} | {cell(value)} |" for name, value in facts.items())
    return f"""# {task.capitalize()}

| | |
|---|---|
| data | {escape(", ".join(files))} |
| model | {model} |
{fact_lines}

| {names} |
|{"---|" * len(scores)}
| {values} |
{by_label}
"""


def cell(value: object) -> str:
    """A value in a table cell."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def escape(text: str) -> str:
    """Text from outside, escaped so that it is plain text in Markdown and in HTML."""
    return (
        html.escape(" ".join(text.split())).replace("|", "&#124;").replace("`", "&#96;").replace("[", "&#91;")
    )
