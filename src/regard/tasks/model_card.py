"""The model card of a run: what it was made of and how good it is, comparable by its signature."""

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
    where = f"{data.corpus} ({data.form})" if data.corpus != "files" else f"{data.source}, {data.target}"
    languages = f"{harmless(data.source_language)} to {harmless(data.target_language)}"
    parameters = sum(each.numel() for each in training.model.parameters())
    return f"""# Translation from {languages}

| | |
|---|---|
| data | {harmless(where)}: {report} |
| vocabulary | {vocabulary} |
| model | {model}, {parameters:,} parameters |
| engine | {training.engine} |
| training | {training.step:,} steps, {training.seconds / 60:.1f} minutes, seed {recipe.train.seed} |

On {quality.sentences:,} test sentences, beam {recipe.decode.beam}:

| BLEU | chrF | TER | loss a token |
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
    """The README.md of a run of a BERT."""
    heads, values = " | ".join(scores), " | ".join(f"{value:.4f}" for value in scores.values())
    by_label = ""
    if rows:
        names = list(rows[0])
        cells = [" | ".join(cell(row[name]) for name in names) for row in rows]
        by_label = "\n".join(
            [f"\n| {' | '.join(names)} |", f"|{'---|' * len(names)}", *(f"| {each} |" for each in cells)]
        )
    told = "\n".join(f"| {name} | {cell(value)} |" for name, value in facts.items())
    return f"""# {task.capitalize()}

| | |
|---|---|
| data | {harmless(", ".join(files))} |
| model | {model} |
{told}

| {heads} |
|{"---|" * len(scores)}
| {values} |
{by_label}
"""


def cell(value: object) -> str:
    """A value in a table."""
    return (
        f"{value:.4f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else harmless(str(value))
    )


def harmless(words: str) -> str:
    """Words that came from outside, as text and nothing else in Markdown and in HTML."""
    return (
        html.escape(" ".join(words.split())).replace("|", "&#124;").replace("`", "&#96;").replace("[", "&#91;")
    )
