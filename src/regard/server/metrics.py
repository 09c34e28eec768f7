"""What the server counts, in the text format that Prometheus reads."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, ...]


class Metric:
    """One family: a name, a line of help, a kind, and the names of its labels."""

    kind = "untyped"

    def __init__(self, name: str, about: str, labels: Labels = ()) -> None:
        self.name, self.about, self.labels = name, about, labels
        self.lock = threading.Lock()

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.about}"
        yield f"# TYPE {self.name} {self.kind}"
        with self.lock:
            yield from list(self.samples())

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def sample(self, values: Labels, number: float, suffix: str = "", **more: str) -> str:
        pairs = [*zip(self.labels, values, strict=True), *more.items()]
        told = ",".join(f'{label}="{escaped(value)}"' for label, value in pairs)
        return f"{self.name}{suffix}{{{told}}} {number:.10g}" if told else f"{self.name}{suffix} {number:.10g}"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Counter(Metric):
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Labels = ()) -> None:
        super().__init__(name, about, labels)
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
    """Numbers that are asked for when they are told."""

    kind = "gauge"

    def __init__(
        self, name: str, about: str, ask: Callable[[], Mapping[Labels, float]], labels: Labels = ()
    ) -> None:
        super().__init__(name, about, labels)
        self.ask = ask

    def samples(self) -> Iterator[str]:
        return (self.sample(values, number) for values, number in sorted(self.ask().items()))


class Histogram(Metric):
    """How many observations were at most so large, for each of some bounds."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        super().__init__(name, about, labels)
        self.bounds = [*bounds, float("inf")]
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}

    def observe(self, *values: str, number: float) -> None:
        place = next(place for place, bound in enumerate(self.bounds) if number <= bound)
        with self.lock:
            self.counts.setdefault(values, [0] * len(self.bounds))[place] += 1
            self.sums[values] = self.sums.get(values, 0.0) + number

    def samples(self) -> Iterator[str]:
        for values, counts in sorted(self.counts.items()):
            for bound, count in zip(self.bounds, accumulate(counts), strict=True):
                told = "+Inf" if bound == float("inf") else f"{bound:g}"
                yield self.sample(values, count, "_bucket", le=told)
            yield self.sample(values, self.sums[values], "_sum")
            yield self.sample(values, sum(counts), "_count")


class Metrics:
    """All that is counted. `waiting` tells how many sentences wait for each model."""

    def __init__(self, waiting: Callable[[], Mapping[str, int]]) -> None:
        self.requests = Counter(
            "regard_requests_total", "Requests answered, by route and status.", ("method", "route", "status")
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "Seconds from a request's first byte to its answer's last, by route.",
            (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            ("route",),
        )
        self.waiting = Gauge(
            "regard_queue_sentences",
            "Sentences that wait for a model.",
            lambda: {(model,): number for model, number in waiting().items()},
            ("model",),
        )
        self.batches = Histogram(
            "regard_batch_sentences",
            "Sentences worked together in one batch.",
            (1, 2, 4, 8, 16, 32, 64, 128, 256),
            ("model",),
        )
        self.sentences = Counter("regard_sentences_total", "Sentences translated, or texts read.", ("model",))
        self.tokens = Counter("regard_tokens_total", "Tokens written in translations.", ("model",))
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
