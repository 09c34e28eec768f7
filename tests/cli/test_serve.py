"""`regard serve` as a user runs it: in a process of its own, stopped by a signal."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from support.quick_command import QuickProcess
from support.small_models import transformer, write_run

from regard.cli.serve import bound_socket, folders_by_name, read_token, serve
from regard.errors import RegardError

Start = Callable[..., QuickProcess]
WITHOUT_EXTRA = "import sys; sys.modules['uvicorn'] = None"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("serve") / "run", transformer())


@pytest.fixture
def start(programs: Path) -> Start:
    """Starts the command in a process of its own."""

    def call(*arguments: str, **options) -> QuickProcess:
        command = [str(programs / "regard"), "serve", *arguments]
        return QuickProcess(
            command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    return call


@contextlib.contextmanager
def listening(process: subprocess.Popen[str]) -> Iterator[str]:
    """The address of a started server, once it accepts connections."""
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), process.stderr and process.stderr.read()
        yield address
    finally:
        process.kill()
        process.wait()


class Clients:
    """Threads that send requests until one fails; records the start and outcome of each request."""

    def __init__(self, address: str, number: int) -> None:
        self.address = address
        self.ended: list[tuple[float, object]] = []
        self.threads = [threading.Thread(target=self.send_requests) for _ in range(number)]
        for thread in self.threads:
            thread.start()

    def send_requests(self) -> None:
        with httpx.Client(base_url=self.address, timeout=30) as client:
            while not self.ended or self.ended[-1][1] == 200:
                start_time = time.monotonic()
                try:
                    response = client.post("/translate", json={"text": ["eins zwei drei vier fünf"] * 10})
                    whole = len(response.json()["translations"]) == 10 if response.status_code == 200 else True
                    self.ended.append((start_time, response.status_code if whole else "incomplete"))
                except httpx.HTTPError as problem:
                    self.ended.append((start_time, type(problem).__name__))

    def join(self) -> list[tuple[float, object]]:
        for thread in self.threads:
            thread.join(30)
        return self.ended


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stop_under_load_loses_no_request(run: Path, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        str(run),
        "--port",
        "0",
    ]  # not forked, since its exit is tested
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with listening(process) as address:
        clients = Clients(address, 8)
        time.sleep(1.5)
        stopped = time.monotonic()
        process.send_signal(number)
        ended = clients.join()
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    before = Counter(outcome for start_time, outcome in ended if start_time < stopped)
    after = {outcome for start_time, outcome in ended if start_time >= stopped}
    assert before[200] > 8
    assert set(before) == {200} or set(before) == {200, 503}  # a request that was not accepted is refused
    assert after <= {200, 503, "ConnectError", "RemoteProtocolError", "ReadError"}
    answered = sum(outcome in (200, 503) for _, outcome in ended)
    assert err.splitlines()[-1] == f"regard: stopped: {answered:,} requests were answered"
    assert "Traceback" not in err
    assert "anyone who can reach" not in err
    assert "eins" not in err


def test_sockets_send_small_packets_at_once() -> None:
    """asyncio sets TCP_NODELAY only on sockets whose protocol is given."""
    with bound_socket("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_a_port_in_use_is_an_error(run: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = start(str(run), "--port", str(port))
        printed, err = refused.communicate(timeout=60)
    assert (refused.returncode, printed) == (2, "")
    assert (
        err == f"regard: port {port} of 127.0.0.1 is in use; choose another with --port, or 0 for a free one\n"
    )


def test_invalid_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, bytes_file = tmp_path / "empty", tmp_path / "bytes"
    empty.write_text("\n")
    bytes_file.write_bytes(b"\xff\xfe")
    for runs, options, message in (
        (["nowhere"], {}, "there is no run folder nowhere"),
        (["a/b", "c/b"], {}, "2 runs are named b; name them with NAME=RUN"),
        (["=run"], {}, "a model needs a name: NAME=RUN"),
        (
            ["run"],
            {"token_file": tmp_path / "none"},
            f"--token-file {tmp_path}/none cannot be read: no such file",
        ),
        (["run"], {"token_file": bytes_file}, f"--token-file {bytes_file} cannot be read: it is not text"),
        (["run"], {"token_file": empty}, f"{empty} holds no token; expected one word of ASCII"),
        (["run"], {"host": "no such host"}, "--host no such host: there is no such address"),
        (["run"], {"host": "192.0.2.1"}, "cannot listen on port 0 of 192.0.2.1: "),
    ):
        with pytest.raises(RegardError) as caught:
            serve(runs, port=0, **options)
        assert str(caught.value).startswith(message)
    monkeypatch.setenv("REGARD_TOKEN", "two words")
    with pytest.raises(RegardError, match="REGARD_TOKEN holds no token"):
        serve(["run"], port=0)


def test_model_names_and_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd=name").mkdir()
    (tmp_path / "token").write_text("word\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_TOKEN", "other")
    assert folders_by_name(["runs/a", "b=runs/c", "odd=name"]) == {
        "a": "runs/a",
        "b": "runs/c",
        "odd=name": "odd=name",
    }
    assert read_token(None) == "other"
    assert read_token(tmp_path / "token") == "word"


def test_without_the_extra_the_error_names_it(run: Path, start: Start) -> None:
    refused = start(str(run), first=WITHOUT_EXTRA)
    err = refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    assert err == "regard: `regard serve` needs uvicorn: pip install 'regard[serve]'\n"


def test_a_public_address_without_a_token_is_a_warning(run: Path, start: Start) -> None:
    process = start(f"mine={run}", "--host", "0.0.0.0", "--port", "0")
    with listening(process) as address:
        local = address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{local}/models").json()["models"][0]["name"] == "mine"
        process.terminate()
        err = process.communicate(timeout=20)[1]
    assert (
        "regard: anyone who can reach 0.0.0.0 may use this server; --token-file makes it require a token" in err
    )
