"""A server under load on loopback: many clients compared with one, overload, and a stop under load.

    python benchmarks/serving.py [--quick] [--json] [RUN [SOURCE]]

`regard serve` runs in its own process; the clients are coroutines of this one and connect to 127.0.0.1 only.
Without RUN, a model is trained on the picture book for half a minute. One client and many take turns; the ratio
is the median of the ratios of the turns.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from harness.rounds import Row, as_json, comparison_row, format_table

CLIENTS = 64
QUEUE = 256
"""Capacity of the queue in sentences: enough for all clients, a tenth of the overload."""
TEXTS = 8
"""Sentences per request of the overload."""
TIMEOUT = 60.0


@dataclass
class Load:
    """Results of requests: statuses, latencies, and the total time in seconds."""

    seconds: float = 0.0
    statuses: Counter[object] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    lost: int = 0
    """Requests sent before the stop that got no response."""

    @property
    def speed(self) -> float:
        return self.statuses[200] / self.seconds

    @property
    def errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if status not in (200, 429))

    def latency_99(self) -> float:
        """99th percentile of the latency in milliseconds."""
        return 1000 * statistics.quantiles(self.times, n=100)[-1] if len(self.times) > 1 else 0.0


class Client:
    """A persistent connection, with as little work as possible: the server shares the machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *problem: object) -> None:
        self.writer.close()

    async def get(self, path: str) -> tuple[int, bytes]:
        return await self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def translate(self, texts: list[str], beam: int) -> tuple[int, bytes]:
        body = json.dumps({"text": texts, "beam": beam}).encode()
        head = (
            "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self.send(head.encode() + body)

    async def send(self, request: bytes) -> tuple[int, bytes]:
        self.writer.write(request)
        async with asyncio.timeout(TIMEOUT):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            return int(head[9:12]), await self.reader.readexactly(length)


async def load(port: int, sentences: list[str], clients: int, beam: int, seconds: float) -> Load:
    """So many clients; each sends its next request as soon as it has a response."""
    result, supply = Load(), cycle(sentences)
    start_time = time.perf_counter()

    async def send_requests() -> None:
        async with Client(port) as client:
            while time.perf_counter() - start_time < seconds:
                sent = time.perf_counter()
                status, _ = await client.translate([next(supply)], beam)
                result.statuses[status] += 1
                result.times.append(time.perf_counter() - sent)

    await asyncio.gather(*(send_requests() for _ in range(clients)))
    result.seconds = time.perf_counter() - start_time
    return result


async def overload(port: int, sentences: list[str], rounds: int) -> tuple[Load, list[float]]:
    """Ten times the capacity of the queue at once, several times; and the latencies of /health meanwhile."""
    result, supply, health = Load(), cycle(sentences), list[float]()
    done = asyncio.Event()

    async def send_requests() -> None:
        async with Client(port) as client:
            for _ in range(rounds):
                status, _ = await client.translate([next(supply) for _ in range(TEXTS)], 5)
                result.statuses[status] += 1

    async def poll_health() -> None:
        async with Client(port) as client:
            while not done.is_set():
                sent = time.perf_counter()
                status, _ = await client.get("/health")
                result.statuses[f"health {status}"] += status != 200
                health.append(time.perf_counter() - sent)
                await asyncio.sleep(0.05)

    polling = asyncio.create_task(poll_health())
    await asyncio.gather(*(send_requests() for _ in range(10 * QUEUE // TEXTS)))
    done.set()
    await polling
    return result, health


async def stop(process: "subprocess.Popen[str]", port: int, sentences: list[str]) -> Load:
    """All clients send requests until one is refused; after a second the server is stopped."""
    result, supply = Load(), cycle(sentences)
    stopped: list[float] = []

    async def send_requests() -> None:
        while True:
            sent = time.perf_counter()
            try:
                async with Client(port) as client:
                    while True:
                        sent = time.perf_counter()
                        status, _ = await client.translate([next(supply)], 5)
                        result.statuses[status] += 1
                        if status != 200:
                            return
            except (OSError, asyncio.IncompleteReadError):
                result.lost += not stopped or sent < stopped[0]
                return

    requests = asyncio.gather(*(send_requests() for _ in range(CLIENTS)))
    await asyncio.sleep(1)
    stopped.append(time.perf_counter())
    process.send_signal(signal.SIGTERM)
    await requests
    result.statuses[f"exit code {await asyncio.to_thread(process.wait, 30)}"] += 1
    return result


@contextmanager
def serving(run: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    command = [sys.executable, "-m", "regard", "serve", run, "--port", "0", "--queue", str(QUEUE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise SystemExit(f"`{' '.join(command)}` did not start")
            yield process, int(address.rpartition(":")[2])
        finally:
            process.kill()


def resident_megabytes(process: "subprocess.Popen[str]") -> float:
    """Resident memory of the server in MB; 0 without /proc."""
    path = Path(f"/proc/{process.pid}/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if path.exists() else 0.0


async def measure(run: str, sentences: list[str], quick: bool) -> list[Row]:
    rows: list[Row] = []
    one_seconds, many_seconds, rounds = (2.0, 5.0, 2) if quick else (3.0, 12.0, 5)

    def add(row: Row) -> None:
        rows.append(row)
        print(format_table([row], ""), file=sys.stderr)

    with serving(run) as (process, port):
        await load(port, sentences, CLIENTS, 5, 1.0)
        for beam in (1, 5):
            before = resident_megabytes(process)
            turns = [
                (
                    await load(port, sentences, CLIENTS, beam, many_seconds),
                    await load(port, sentences, 1, beam, one_seconds),
                )
                for _ in range(rounds)
            ]
            speeds = [(many.speed, one.speed) for many, one in turns]
            latencies = [(many.latency_99(), one.latency_99()) for many, one in turns]
            add(comparison_row(f"{CLIENTS} clients, beam {beam}: sentences/s", speeds, "one client"))
            add(comparison_row(f"beam {beam}: 99% within, ms", latencies, "one client"))
            add(Row(f"beam {beam}: errors other than 429", sum(load.errors for turn in turns for load in turn)))
            add(Row(f"beam {beam}: memory growth, MB", resident_megabytes(process) - before))
        over, health = await overload(port, sentences, rounds)
        add(Row("overload: requests answered", over.statuses[200]))
        add(Row("overload: refused with 429", over.statuses[429]))
        add(Row("overload: errors other than 429", over.errors))
        add(Row("overload: slowest /health, ms", 1000 * max(health)))
        after = await load(port, sentences, CLIENTS, 5, many_seconds)
        add(Row("after the overload: sentences/s, beam 5", after.speed))
        stopping = await stop(process, port, sentences)
        add(Row("stop: requests answered", stopping.statuses[200]))
        add(Row("stop: refused with 503", stopping.statuses[503]))
        add(Row("stop: requests lost", stopping.lost))
        add(Row("stop: exit code 0", stopping.statuses["exit code 0"]))
    return rows


def train_picturebook(folder: str) -> str:
    """A model of the picture book, trained for half a minute."""
    run = f"{folder}/picturebook"
    print("training a model for half a minute ...", file=sys.stderr)
    command = [sys.executable, "-m", "regard", "train", "picturebook", "train.minutes=0.5", "--out", run]
    subprocess.run(command, check=True, capture_output=True)
    return run


def sentences_for(run: str | None, source: str | None) -> list[str]:
    if source:
        return [line for line in Path(source).read_text("utf-8").splitlines() if line.strip()]
    if run:
        rows = (json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text("utf-8").splitlines())
        return [sample["source"] for row in rows for sample in row.get("samples", [])]
    from regard.data import catalog

    return [german for german, _ in catalog.pairs("picturebook", "valid")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 s of load instead of 60")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("run", nargs="?", help="a trained run; the picture book without one")
    parser.add_argument("source", nargs="?", help="its sentences, one per line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or train_picturebook(folder)
        rows = asyncio.run(measure(run, sentences_for(options.run, options.source), options.quick))
    print(
        as_json(rows) if options.json else format_table(rows, "sentences per second, milliseconds, megabytes")
    )


if __name__ == "__main__":
    main()
