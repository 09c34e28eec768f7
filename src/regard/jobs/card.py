"""The model card of a run: what it was made of and how good it is, comparable by its signature."""

import html

from regard.config import TranslationRecipe
from regard.data.filters import Report
from regard.evaluation import Quality
from regard.jobs.vocabulary import Vocabulary
from regard.training.loop import Training


def translation_card(
    recipe: TranslationRecipe,
    quality: Quality,
    loss: float,
    training: Training,
    report: Report,
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
| training | {training.step:,} steps, {training.seconds / 60:.1f} minutes, seed {recipe.train.seed} |

On {quality.sentences:,} test sentences, beam {recipe.decode.beam}:

| BLEU | chrF | TER | loss a token |
|---|---|---|---|
| {quality.bleu:.2f} | {quality.chrf:.2f} | {quality.ter:.2f} | {loss:.3f} |

BLEU signature: `{quality.signature}`
"""


def harmless(words: str) -> str:
    """Words that came from outside, as text and nothing else in Markdown and in HTML."""
    return (
        html.escape(" ".join(words.split())).replace("|", "&#124;").replace("`", "&#96;").replace("[", "&#91;")
    )
