"""Metrics in the Prometheus text format."""

import re

import httpx
from support.prometheus_text import read

from regard.server.metrics import Counter, Gauge, Histogram


def test_labels_are_escaped() -> None:
    counter = Counter("c_total", "About.", ("what",))
    counter.add('a "quoted" \\ line\nbreak')
    assert list(counter.lines())[-1] == 'c_total{what="a \\"quoted\\" \\\\ line\\nbreak"} 1'


def test_a_histogram_is_cumulative() -> None:
    histogram = Histogram("h", "About.", (1, 2.5))
    for number in (0.5, 1, 2, 9):
        histogram.observe(number=number)
    assert list(histogram.lines()) == [
        "# HELP h About.", "# TYPE h histogram", 'h_bucket{le="1"} 2', 'h_bucket{le="2.5"} 3',
        'h_bucket{le="+Inf"} 4', "h_sum 12.5", "h_count 4",
    ]  # fmt: skip


def test_a_gauge_is_read_when_it_is_printed() -> None:
    numbers = {("a",): 1.0}
    gauge = Gauge("g", "About.", lambda: numbers, ("model",))
    numbers[("a",)] = 7
    assert list(gauge.lines())[-1] == 'g{model="a"} 7'


def test_the_server_counts_its_requests(client: httpx.Client) -> None:
    before = read(client.get("/metrics").text)
    client.post("/translate", json={"text": ["eins zwei", "drei"]})
    client.post("/translate", json={"text": 5})
    response = client.get("/metrics")
    after = read(response.text)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert re.fullmatch(r"(#.*\n|.+ [-+.e\d]+\n)+", response.text)

    def increase(name: str, **labels: str) -> float:
        key = name, tuple(sorted(labels.items()))
        return after.samples[key] - before.samples.get(key, 0)

    assert increase("regard_requests_total", method="POST", route="/translate", status="200") == 1
    assert increase("regard_requests_total", method="POST", route="/translate", status="422") == 1
    assert increase("regard_refused_total", reason="content") == 1
    assert increase("regard_request_seconds_count", route="/translate") == 2
    assert increase("regard_sentences_total", model="numbers") == 2
    assert increase("regard_tokens_total", model="numbers") == 3
    assert increase("regard_batch_sentences_sum", model="numbers") == 2
    assert after.samples["regard_queue_sentences", (("model", "numbers"),)] == 0
    assert after.kinds["regard_request_seconds"] == "histogram"
