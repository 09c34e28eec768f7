"""A strict reader of Prometheus's text format, to hold the server to it."""

import re
from dataclasses import dataclass, field

SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf|NaN))", re.ASCII)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)', re.ASCII)


@dataclass
class Read:
    """Samples by name and labels, and the kinds of their families."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Read:
    assert text.endswith("\n")
    found = Read()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name not in found.kinds, f"{name} is told twice"
            found.kinds[name] = kind
        elif not line.startswith("# HELP "):
            whole = SAMPLE.fullmatch(line)
            assert whole, line
            name, labels, number = whole.groups()
            pairs = LABEL.findall(labels or "")
            assert LABEL.sub("", labels or "") == "", line
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in found.kinds or found.kinds.get(family) == "histogram", line
            key = name, tuple(sorted(pairs))
            assert key not in found.samples, line
            found.samples[key] = float(number)
    check_histograms(found)
    return found


def check_histograms(found: Read) -> None:
    """Buckets never fall, and the last holds all."""
    for (name, labels), number in found.samples.items():
        if name.endswith("_count"):
            bucket = name.removesuffix("_count") + "_bucket"
            rows = [
                (float(dict(pairs)["le"]), value)
                for (each, pairs), value in found.samples.items()
                if each == bucket and tuple(pair for pair in pairs if pair[0] != "le") == labels
            ]
            assert [value for _, value in rows] == sorted(value for _, value in sorted(rows))
            assert max(rows) == (float("inf"), number)
