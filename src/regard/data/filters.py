"""Length, ratio and duplicate filters for sentence pairs, with counts of what they drop."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from regard.errors import RegardError

Reason = Literal["empty", "short", "long", "ratio", "duplicate"]


@dataclass(frozen=True)
class FilterLimits:
    """Limits on sentence pairs; a pair with an empty side is always dropped."""

    shortest: int = 1
    """Fewest words (or characters) a side may have."""
    max_length: int | None = None
    """Most words (or characters) a side may have."""
    ratio: float | None = None
    """Largest ratio of the longer side to the shorter."""
    unit: Literal["words", "characters"] = "words"
    unique: bool = False
    """Keep only the first of identical pairs."""

    def __post_init__(self) -> None:
        if self.unit not in ("words", "characters"):
            raise RegardError(f"length unit {self.unit!r} is unknown; allowed: words, characters")
        if self.shortest < 1:
            raise RegardError(f"the shortest length is {self.shortest}; it must be at least 1")
        if self.max_length is not None and self.max_length < self.shortest:
            raise RegardError(f"the longest length is {self.max_length}; it must be at least {self.shortest}")
        if self.ratio is not None and not self.ratio >= 1:
            raise RegardError(f"the length ratio is {self.ratio}; it must be at least 1")


@dataclass
class FilterReport:
    """Counts of pairs read, kept and dropped by reason; filled while ``filter_pairs`` runs."""

    limits: FilterLimits = field(default_factory=FilterLimits)
    read: int = 0
    kept: int = 0
    empty: int = 0
    short: int = 0
    long: int = 0
    ratio: int = 0
    duplicate: int = 0

    @property
    def dropped(self) -> int:
        return self.read - self.kept

    def __str__(self) -> str:
        """One line: ``29,000 read, 28,990 kept; dropped: 3 empty, 7 longer than 256``."""
        reasons = [
            (self.empty, "empty"),
            (self.short, f"shorter than {self.limits.shortest}"),
            (self.long, f"longer than {self.limits.max_length}"),
            (self.ratio, f"with a length ratio over {self.limits.ratio}"),
            (self.duplicate, "duplicate"),
        ]
        dropped = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
        line = f"{self.read:,} read, {self.kept:,} kept"
        return f"{line}; dropped: {dropped}" if dropped else line


def filter_pairs(
    pairs: Iterable[tuple[str, str]], limits: FilterLimits, report: FilterReport
) -> Iterator[tuple[str, str]]:
    """The pairs within ``limits``, in order; ``report`` counts the others by the first reason that applies."""
    report.limits = limits
    seen: set[bytes] = set()
    for pair in pairs:
        report.read += 1
        reason = _drop_reason(pair, limits) or (_duplicate(pair, seen) if limits.unique else None)
        if reason is None:
            report.kept += 1
            yield pair
        else:
            setattr(report, reason, getattr(report, reason) + 1)


def _drop_reason(pair: tuple[str, str], limits: FilterLimits) -> Reason | None:
    if not (pair[0].strip() and pair[1].strip()):
        return "empty"
    shorter, longer = sorted(len(side.split()) if limits.unit == "words" else len(side) for side in pair)
    if shorter < limits.shortest:
        return "short"
    if limits.max_length is not None and longer > limits.max_length:
        return "long"
    if limits.ratio is not None and longer > limits.ratio * shorter:
        return "ratio"
    return None


def _duplicate(pair: tuple[str, str], seen: set[bytes]) -> Reason | None:
    # a digest of 16 bytes per pair: ten million pairs take less than a gigabyte
    length = len(pair[0]).to_bytes(8, "big")  # so that ("ab", "c") is not ("a", "bc")
    digest = blake2b(length + "".join(pair).encode(), digest_size=16).digest()
    if digest in seen:
        return "duplicate"
    seen.add(digest)
    return None
