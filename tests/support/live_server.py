"""A server on a loopback port, in a thread of the test process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import torch

from regard.cli.serve import accepted_hosts, bound_socket, url_of
from regard.server.app import Application, create_app
from regard.server.http_server import ConnectionLimits, Server
from regard.server.middleware import AccessRules
from regard.server.model_registry import open_registry
from regard.server.served_translator import ServedTranslator


@dataclass
class LiveServer:
    """A listening server: its address, application and log."""

    address: str
    app: Application
    server: Server
    log: list[str] = field(default_factory=list)

    @property
    def model(self) -> ServedTranslator:
        return next(iter(self.app.registry.models.values()))

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self.server.server_state.connections)

    def client(self, **options) -> httpx.Client:
        return httpx.Client(base_url=self.address, **{"timeout": 30, **options})


@contextmanager
def run_server(
    runs: dict[str, Path],
    *,
    queue: int = 512,
    batch: int = 64,
    threads: int = 1,
    timeout: float = 30.0,
    token: str | None = None,
    origins: tuple[str, ...] = (),
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
) -> Iterator[LiveServer]:
    log: list[str] = []
    default_threads = torch.get_num_threads()
    torch.set_num_threads(threads)  # of each model
    registry = open_registry({name: str(run) for name, run in runs.items()}, queue, batch, timeout)
    torch.set_num_threads(default_threads)
    registry.log = log.append
    app = create_app(registry, AccessRules(accepted_hosts("127.0.0.1", []), origins, token))
    listening = threading.Event()
    with bound_socket("127.0.0.1", 0) as listener:
        server = Server(app, on_listening=listening.set, limits=limits)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert listening.wait(10)
        try:
            yield LiveServer(url_of(listener), app, server, log)
        finally:
            server.should_exit = True
            thread.join(20)
    assert not thread.is_alive()
    app.join()


class PausedModel:
    """Pauses a model until `resume` is set, and records its batches."""

    def __init__(self, model: ServedTranslator) -> None:
        self.model, self.run_batch = model, model.queue.run_batch
        self.resume, self.started = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def __enter__(self) -> "PausedModel":
        def wait_and_run(batch_key, items):
            self.batches.append(list(items))
            self.started.set()
            assert self.resume.wait(20)
            return self.run_batch(batch_key, items)

        self.model.queue.run_batch = wait_and_run
        return self

    def __exit__(self, *error: object) -> None:
        self.resume.set()
        self.model.queue.run_batch = self.run_batch


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that other threads fulfil, ten seconds at most."""
    for _ in range(500):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("the condition did not become true within ten seconds")
