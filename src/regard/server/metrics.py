"""Counters, gauges and histograms in the Prometheus text format."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]


class Metric:
    """One metric family: name, help text, type and label names."""

    kind = "untyped"

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels
        self.lock = threading.Lock()

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} {self.kind}"
        with self.lock:
            yield from list(self.samples())

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def sample(self, values: Labels, number: float, suffix: str = "", **more: str) -> str:
        pairs = [*zip(self.labels, values, strict=True), *more.items()]
        labels = ",".join(f'{label}="{escaped(value)}"' for label, value in pairs)
        return (
            f"{self.name}{suffix}{{{labels}}} {number:.10g}" if labels else f"{self.name}{suffix} {number:.10g}"
        )


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Counter(Metric):
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        super().__init__(name, help_text, labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, number: float = 1) -> None:
        with self.lock:
            self.values[values] = self.values.get(values, 0) + number

    def total(self) -> float:
        with self.lock:
            return sum(self.values.values())

    def samples(self) -> Iterator[str]:
        return (self.sample(values, number) for values, number in sorted(self.values.items()))


class Gauge(Metric):
    """Values that are read when the metrics are requested."""

    kind = "gauge"

    def __init__(
        self, name: str, help_text: str, read: Callable[[], Mapping[Labels, float]], labels: Labels = ()
    ) -> None:
        super().__init__(name, help_text, labels)
        self.read = read

    def samples(self) -> Iterator[str]:
        return (self.sample(values, number) for values, number in sorted(self.read().items()))


class Histogram(Metric):
    """Cumulative counts of observations up to each bound."""

    kind = "histogram"

    def __init__(self, name: str, help_text: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        super().__init__(name, help_text, labels)
        self.bounds = [*bounds, float("inf")]
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def observe(self, *values: str, number: float) -> None:
        bucket = next(index for index, bound in enumerate(self.bounds) if number <= bound)
        with self.lock:
            self.counts.setdefault(values, [0] * len(self.bounds))[bucket] += 1
            self.sums[values] = self.sums.get(values, 0.0) + number

    def samples(self) -> Iterator[str]:
        for values, counts in sorted(self.counts.items()):
            for bound, count in zip(self.bounds, accumulate(counts), strict=True):
                upper = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield self.sample(values, count, "_bucket", le=upper)
            yield self.sample(values, self.sums[values], "_sum")
            yield self.sample(values, sum(counts), "_count")


class Metrics:
    """The metrics of a server.

    Args:
        waiting: Returns the number of waiting sentences by model.
    """

    def __init__(self, waiting: Callable[[], Mapping[str, int]]) -> None:
        self.requests = Counter(
            "regard_requests_total", "Requests answered, by route and status.", ("method", "route", "status")
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "Seconds from a request's first byte to the last byte of its response, by route.",
            (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            ("route",),
        )
        self.waiting = Gauge(
            "regard_queue_sentences",
            "Sentences waiting in a model's queue.",
            lambda: {(model,): number for model, number in waiting().items()},
            ("model",),
        )
        self.batches = Histogram(
            "regard_batch_sentences",
            "Sentences per batch.",
            (1, 2, 4, 8, 16, 32, 64, 128, 256),
            ("model",),
        )
        self.sentences = Counter("regard_sentences_total", "Sentences or texts processed.", ("model",))
        self.tokens = Counter("regard_tokens_total", "Tokens generated.", ("model",))
        self.refused = Counter("regard_refused_total", "Requests refused, by reason.", ("reason",))
        self.families: tuple[Metric, ...] = (
            self.requests,
            self.seconds,
            self.waiting,
            self.batches,
            self.sentences,
            self.tokens,
            self.refused,
        )

    def text(self) -> str:
        return "".join(f"{line}\n" for family in self.families for line in family.lines())
