"""A strict parser of the Prometheus text format."""

import re
from dataclasses import dataclass, field

SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf|NaN))", re.ASCII)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)', re.ASCII)


@dataclass
class Metrics:
    """Samples by name and labels, and the types of the metric families."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Metrics:
    assert text.endswith("\n")
    metrics = Metrics()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name not in metrics.kinds, f"{name} has two types"
            metrics.kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, number = match.groups()
            pairs = LABEL.findall(labels or "")
            assert LABEL.sub("", labels or "") == "", line
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in metrics.kinds or metrics.kinds.get(family) == "histogram", line
            key = name, tuple(sorted(pairs))
            assert key not in metrics.samples, line
            metrics.samples[key] = float(number)
    check_histograms(metrics)
    return metrics


def check_histograms(metrics: Metrics) -> None:
    """Cumulative buckets never decrease, and the last one equals the count."""
    for (name, labels), number in metrics.samples.items():
        if name.endswith("_count"):
            bucket = name.removesuffix("_count") + "_bucket"
            rows = [
                (float(dict(pairs)["le"]), value)
                for (sample, pairs), value in metrics.samples.items()
                if sample == bucket and tuple(pair for pair in pairs if pair[0] != "le") == labels
            ]
            assert [value for _, value in rows] == sorted(value for _, value in sorted(rows))
            assert max(rows) == (float("inf"), number)
