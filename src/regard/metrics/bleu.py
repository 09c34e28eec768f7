"""BLEU, chrF and TER by sacreBLEU, with its signature; paired bootstrap resampling."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from regard.errors import RegardError

NO_LIMIT = 10**9
LENGTH_BUCKETS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, NO_LIMIT))
"""Source lengths in words."""
RESAMPLES = 1000
"""Resamples of the paired bootstrap; no p-value is below 1 / RESAMPLES."""


@dataclass(frozen=True)
class Quality:
    """Corpus-level scores of translations against references."""

    bleu: float
    chrf: float
    ter: float
    signature: str
    """sacreBLEU's signature of the BLEU score."""
    sentences: int


def bleu_metric(tokenized: bool) -> BLEU:
    """Tokenized text is scored as it is; other text with sacreBLEU's tokenizer."""
    return BLEU(tokenize="none", force=True) if tokenized else BLEU()


def score_translations(
    translations: Sequence[str], references: Sequence[str], *, tokenized: bool = False
) -> Quality:
    """BLEU, chrF and TER of a test set.

    Args:
        translations: One per sentence.
        references: One per sentence.
        tokenized: The texts are tokenized already.

    Raises:
        RegardError: The numbers of translations and references differ, or there are none.
    """
    check_counts(translations, references)
    metric = bleu_metric(tokenized)
    bleu = metric.corpus_score(translations, [references])
    return Quality(
        bleu=bleu.score,
        chrf=CHRF().corpus_score(translations, [references]).score,
        ter=TER().corpus_score(translations, [references]).score,
        signature=str(metric.get_signature()),
        sentences=len(references),
    )


def check_counts(translations: Sequence[str], references: Sequence[str]) -> None:
    if len(translations) != len(references):
        raise RegardError(f"there are {len(translations)} translations, but {len(references)} references")
    if not references:
        raise RegardError("there are no references; give at least one")


def bleu_by_length(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], *, tokenized: bool = False
) -> list[dict[str, float | str]]:
    """BLEU per bucket of source lengths in words."""
    rows: list[dict[str, float | str]] = []
    lengths = [len(source.split()) for source in sources]
    for low, high in LENGTH_BUCKETS:
        members = [number for number, length in enumerate(lengths) if low <= length <= high]
        if members:
            score = bleu_metric(tokenized).corpus_score(
                [translations[number] for number in members], [[references[number] for number in members]]
            )
            name = f"{low}-{high}" if high < NO_LIMIT else f"{low}+"
            rows.append({"words": name, "sentences": len(members), "bleu": score.score})
    return rows


def sentence_chrf(translations: Sequence[str], references: Sequence[str]) -> list[float]:
    """The chrF of each sentence, to find the worst ones; BLEU has no counts to rely on in a single sentence."""
    check_counts(translations, references)
    metric = CHRF()
    return [
        metric.sentence_score(translation, [reference]).score
        for translation, reference in zip(translations, references, strict=True)
    ]


@dataclass(frozen=True)
class PairedBootstrap:
    """The result of one system in a paired bootstrap against the first one, the baseline."""

    name: str
    bleu: float
    half_width: float
    """Half the width of the 95% confidence interval."""
    p_value: float | None
    """Of the difference from the baseline; None for the baseline itself."""


def paired_bootstrap(
    names: Sequence[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    tokenized: bool = False,
) -> list[PairedBootstrap]:
    """Paired bootstrap resampling (Koehn 2004) of every system against the first one, by sacreBLEU.

    Args:
        names: One per system.
        systems: The translations of each system.
        references: One per sentence.
        tokenized: The texts are tokenized already.

    Raises:
        RegardError: The numbers of translations and references differ, or there are none.
    """
    for system in systems:
        check_counts(system, references)
    named: list[tuple[str, Sequence[str]]] = [
        (name, list(system)) for name, system in zip(unique(names), systems, strict=True)
    ]
    metrics = {"BLEU": bleu_metric(tokenized)}
    _, results = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=RESAMPLES)()
    scored = [result for result in results["BLEU"] if isinstance(result, Result)]
    return [
        PairedBootstrap(
            name=name,
            bleu=result.score,
            half_width=float(result.ci or 0.0),
            # sacreBLEU does not give identical translations a p-value of 1.
            p_value=1.0 if number and list(systems[number]) == list(systems[0]) else result.p_value,
        )
        for number, (name, result) in enumerate(zip(names, scored, strict=True))
    ]


def unique(names: Sequence[str]) -> list[str]:
    """Unique names, which sacreBLEU requires of systems."""
    return [f"{number} {name}" for number, name in enumerate(names)]
