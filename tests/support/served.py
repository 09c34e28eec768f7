"""A real server on a real loopback port, in a thread of the test's own process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import torch

from regard.cli.serve import served_names
from regard.server.access import Rules
from regard.server.application import Application, application
from regard.server.connections import ConnectionLimits
from regard.server.model_registry import open_registry
from regard.server.places import address_of, bound_socket
from regard.server.running import Server
from regard.server.translator import ServedTranslator


@dataclass
class Served:
    """A server that listens: its address, what it logs, and what is behind it."""

    address: str
    app: Application
    server: Server
    log: list[str] = field(default_factory=list)

    @property
    def model(self) -> ServedTranslator:
        return next(iter(self.app.registry.models.values()))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self.server.server_state.connections)

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.address, **{"timeout": 30, **options})


@contextmanager
def served(
    runs: dict[str, Path],
    *,
    queue: int = 512,
    batch: int = 64,
    threads: int = 1,
    timeout: float = 30.0,
    token: str | None = None,
    origins: tuple[str, ...] = (),
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
) -> Iterator[Served]:
    log: list[str] = []
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)  # of each model
    house = open_registry({name: str(run) for name, run in runs.items()}, queue, batch, timeout)
    torch.set_num_threads(usual)
    house.log = log.append
    app = application(house, Rules(served_names("127.0.0.1", []), origins, token))
    listens = threading.Event()
    with bound_socket("127.0.0.1", 0) as listener:
        server = Server(app, listening=listens.set, limits=limits)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert listens.wait(10)
        try:
            yield Served(address_of(listener), app, server, log)
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()
    app.join()


class Held:
    """Keeps a model from working until it is let go, and remembers what it was given to do."""

    def __init__(self, model: ServedTranslator) -> None:
        self.model, self.work = model, model.batcher.work
        self.go, self.holds = threading.Event(), threading.Event()
        self.given: list[list[str]] = []

    def __enter__(self) -> "Held":
        def wait_and_work(way, items):
            self.given.append(list(items))
            self.holds.set()
            assert self.go.wait(20)
            return self.work(way, items)

        self.model.batcher.work = wait_and_work
        return self

    def __exit__(self, *problem: object) -> None:
        self.go.set()
        self.model.batcher.work = self.work


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that other threads do, ten seconds at most."""
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within ten seconds")
