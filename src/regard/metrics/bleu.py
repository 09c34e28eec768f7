"""BLEU, chrF and TER by sacreBLEU, with the signature that makes them comparable."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from regard.errors import RegardError

BUCKETS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 10**9))
"""Source lengths in words."""


@dataclass(frozen=True)
class Quality:
    """Corpus scores of translations against references."""

    bleu: float
    chrf: float
    ter: float
    signature: str
    """sacreBLEU's, for BLEU."""
    sentences: int


def bleu_metric(tokenized: bool) -> BLEU:
    """Text that is tokenized already is scored as it is; any other goes through sacreBLEU's tokenizer."""
    return BLEU(tokenize="none", force=True) if tokenized else BLEU()


def measure(translations: Sequence[str], references: Sequence[str], *, tokenized: bool = False) -> Quality:
    """Scores of a whole test set."""
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
        raise RegardError(f"there are {len(translations)} translations and {len(references)} references")
    if not references:
        raise RegardError("there are no references to measure against")


def by_length(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str], *, tokenized: bool = False
) -> list[dict[str, float | str]]:
    """BLEU of the sentences of each source length, in words."""
    rows: list[dict[str, float | str]] = []
    lengths = [len(source.split()) for source in sources]
    for low, high in BUCKETS:
        members = [number for number, length in enumerate(lengths) if low <= length <= high]
        if members:
            score = bleu_metric(tokenized).corpus_score(
                [translations[number] for number in members], [[references[number] for number in members]]
            )
            name = f"{low}-{high}" if high < 10**9 else f"{low}+"
            rows.append({"words": name, "sentences": len(members), "bleu": score.score})
    return rows


@dataclass(frozen=True)
class Paired:
    """A system in a paired bootstrap against the first one."""

    name: str
    bleu: float
    half_width: float
    """Of the 95% confidence interval."""
    p_value: float | None
    """How likely so large a difference from the first is by chance; the first has none."""


def significance(
    names: Sequence[str],
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    *,
    tokenized: bool = False,
) -> list[Paired]:
    """Paired bootstrap of every system against the first: BLEU, its 95% half-width, and the p-value."""
    for system in systems:
        check_counts(system, references)
    named: list[tuple[str, Sequence[str]]] = [
        (name, list(system)) for name, system in zip(unique(names), systems, strict=True)
    ]
    metrics = {"BLEU": bleu_metric(tokenized)}
    _, results = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=1000)()
    scored = [result for result in results["BLEU"] if isinstance(result, Result)]
    return [
        Paired(
            name=name,
            bleu=result.score,
            half_width=float(result.ci or 0.0),
            # The bootstrap knows no difference of exactly nothing.
            p_value=1.0 if place and list(systems[place]) == list(systems[0]) else result.p_value,
        )
        for place, (name, result) in enumerate(zip(names, scored, strict=True))
    ]


def unique(names: Sequence[str]) -> list[str]:
    """sacreBLEU tells systems apart by name."""
    return [f"{number} {name}" for number, name in enumerate(names)]
