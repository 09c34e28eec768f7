"""Limits on connections: idle ones, incomplete or large headers, and too many of them."""

import asyncio
import json
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.live_server import LiveServer, PausedModel, run_server, wait_until
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regard.server.http_server import (
    ConnectionLimits,
    H11Connection,
    connection_class,
    httptools_connection,
    with_limits,
)
from regard.server.middleware import MAX_HEADER_BYTES, MAX_HEADERS

HOST = b"Host: localhost\r\n"
HALF = b"GET /health HTTP/1.1\r\n" + HOST + b"X-Half: "
PARSERS = {"h11": H11Connection, "httptools": httptools_connection()}


@pytest.fixture(scope="module", params=PARSERS)
def parser(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        base = PARSERS[request.param]
        patch.setattr("regard.server.http_server.connection_class", lambda limits: with_limits(base, limits))
        yield request.param


@pytest.fixture(scope="module")
def server(run: Path, parser: str) -> Iterator[LiveServer]:
    """A server that waits half a second for headers and takes eight connections."""
    with run_server(
        {"numbers": run}, limits=ConnectionLimits(header_timeout=0.5, max_connections=8)
    ) as served_model:
        yield served_model


@contextmanager
def connect(server: LiveServer, sent: bytes = b"") -> Iterator[socket.socket]:
    url = urlsplit(server.address)
    with socket.create_connection((url.hostname, url.port), timeout=10) as connection:
        connection.sendall(sent)
        yield connection


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes; ConnectionError if it aborts."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def read_if_any(connection: socket.socket) -> bytes:
    """The same, but empty if the server aborts."""
    with suppress(ConnectionError):
        return read_all(connection)
    return b""


def status_and_error(raw: bytes) -> tuple[int, str]:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert b"x-content-type-options: nosniff" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


def is_healthy(server: LiveServer) -> bool:
    with server.client() as client:
        return client.get("/health").status_code == 200


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"x\r\n", b"G"])
def test_incomplete_headers_time_out_while_others_are_answered(server: LiveServer, sent: bytes) -> None:
    start = time.monotonic()
    with connect(server, sent) as connection:
        assert is_healthy(server)
        raw = read_all(connection)
    assert 0.4 < time.monotonic() - start < 3
    if sent:
        expected = (408, "the headers of the request were not complete within 0.5 s")
        assert status_and_error(raw) == expected
    else:
        assert raw == b""  # a browser that opens connections in advance expects no response


def test_headers_sent_byte_by_byte_have_the_same_timeout(server: LiveServer) -> None:
    start = time.monotonic()
    with connect(server, HALF) as connection:
        connection.settimeout(0.05)
        raw = b""
        while not raw:
            connection.sendall(b"x")
            try:
                raw = connection.recv(1 << 16)
            except TimeoutError:
                assert time.monotonic() - start < 3
    assert status_and_error(raw)[0] == 408


def test_a_second_request_has_the_same_timeout(server: LiveServer) -> None:
    with connect(server, b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        time.sleep(0.8)  # idle time between requests does not count
        start = time.monotonic()
        connection.sendall(HALF)
        assert status_and_error(read_all(connection))[0] == 408
        assert 0.4 < time.monotonic() - start < 3


def test_the_body_of_a_refused_request_does_not_keep_the_connection_open(server: LiveServer) -> None:
    """uvicorn's idle timer is cancelled by the next byte, and not started again."""
    head = b"POST /translate HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100000\r\n\r\n"
    with connect(server, head) as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 421")
        start = time.monotonic()
        connection.sendall(b"x")
        assert read_all(connection) == b""
        assert time.monotonic() - start < 3


def test_a_slow_response_does_not_time_out(server: LiveServer) -> None:
    with PausedModel(server.model) as held, ThreadPoolExecutor(1) as pool, server.client() as client:
        answer = pool.submit(client.post, "/translate", json={"text": "eins"})
        assert held.started.wait(10)
        time.sleep(0.8)
        held.resume.set()
        assert answer.result(10).json()["translations"][0]["text"] == "one"


def get_health(*more: bytes) -> bytes:
    return b"GET /health HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in more) + b"\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        get_health(b"X-Large: " + b"x" * (1 << 20)),
        get_health(b"X-Large: " + b"x" * MAX_HEADER_BYTES),
        get_health(*(b"X-%d: y" % number for number in range(10_000))),
        get_health(*(b"X-%d: y" % number for number in range(MAX_HEADERS))),
        b"GET /health?" + b"x" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /" + b"x" * (1 << 20),
    ],
    ids=["1 MB", "64 KiB", "10,000", "101", "line", "half a line"],
)
def test_large_headers_are_refused(server: LiveServer, sent: bytes) -> None:
    with connect(server, sent) as connection:
        status, error = status_and_error(read_all(connection))
    assert (status, error) == (431, "the headers are more than 65,536 bytes or more than 100; send fewer")
    assert is_healthy(server)


def test_headers_within_the_limits_are_accepted(server: LiveServer) -> None:
    many = {f"X-{number}": "y" for number in range(90)}
    large = {"X-Large": "x" * (MAX_HEADER_BYTES - 1000)}
    with server.client() as client:
        assert [client.get("/health", headers=headers).status_code for headers in (many, large)] == [200, 200]


def test_a_pipelined_request_with_large_headers_does_not_affect_the_one_before(server: LiveServer) -> None:
    body = b'{"text": "eins"}'
    first = (
        b"POST /translate HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
        + body
    )
    with PausedModel(server.model) as held, connect(server, first) as connection, ThreadPoolExecutor(1) as pool:
        assert held.started.wait(10)
        sending = pool.submit(send_ignoring_errors, connection, get_health(b"X: " + b"x" * (1 << 22)))
        time.sleep(0.2)
        held.resume.set()
        raw = read_all(connection)
        sending.result(10)
    first_response, _, second_response = raw.partition(b"HTTP/1.1 431")
    assert b'"text":"one"' in first_response
    assert second_response


def send_ignoring_errors(connection: socket.socket, sent: bytes) -> None:
    with suppress(ConnectionError):
        connection.sendall(sent)


def test_two_hosts_are_refused(server: LiveServer, parser: str) -> None:
    with connect(server, get_health(b"Host: localhost")) as connection:
        raw = read_all(connection)
    if parser == "h11":  # h11 refuses it itself
        assert raw.startswith(b"HTTP/1.1 400 ")
    else:
        assert status_and_error(raw) == (400, "the request has 2 Host headers; send one")


def test_the_oldest_idle_connections_are_closed_for_new_ones(server: LiveServer) -> None:
    wait_until(lambda: server.connections == 0)
    with ExitStack() as stack:
        first, second = [], []
        for group in (first, second):
            group += [stack.enter_context(connect(server, HALF)) for _ in range(4)]
            wait_until(lambda: server.connections == len(first) + len(second))
        second += [stack.enter_context(connect(server, HALF)) for _ in range(4)]
        assert [read_if_any(connection) for connection in first] == [b""] * 4
        assert [status_and_error(read_if_any(connection))[0] for connection in second] == [408] * 8


def test_idle_connections_do_not_block_requests(server: LiveServer) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connect(server, HALF))
        assert translate(server).status_code == 200


def test_a_connection_over_the_limit_gets_503(server: LiveServer) -> None:
    wait_until(lambda: server.app.log.active == 0)  # of earlier tests
    with ThreadPoolExecutor(8) as pool, PausedModel(server.model) as held:
        accepted = [pool.submit(translate, server) for _ in range(8)]
        assert held.started.wait(10)
        wait_until(lambda: server.app.log.active == 8)
        for _ in range(2):
            refused = translate(server)
            assert refused.status_code == 503
            assert refused.json()["error"].startswith("the server has reached its limit of open connections")
            assert refused.headers["retry-after"] == "2"
        held.resume.set()
        assert [future.result(10).status_code for future in accepted] == [200] * 8
    assert translate(server).status_code == 200
    with server.client() as client:
        assert 'regard_refused_total{reason="unavailable"} 2' in client.get("/metrics").text


def translate(server: LiveServer) -> httpx.Response:
    with server.client() as client:
        return client.post("/translate", json={"text": "eins"})


def test_connections_over_twice_the_limit_are_aborted(server: LiveServer) -> None:
    """At most twice the limit is open."""
    with ThreadPoolExecutor(8) as pool, PausedModel(server.model) as held, ExitStack() as stack:
        accepted = [pool.submit(translate, server) for _ in range(8)]
        wait_until(lambda: server.app.log.active == 8)
        more = [stack.enter_context(connect(server)) for _ in range(20)]
        wait_until(lambda: len(select.select(more, [], [], 0)[0]) == 12)  # which were closed
        for connection in more:
            send_ignoring_errors(connection, get_health())
        ends = [read_if_any(connection) for connection in more]
        assert [status_and_error(raw)[0] for raw in ends if raw] == [503] * 8
        held.resume.set()
        assert [future.result(10).status_code for future in accepted] == [200] * 8


def test_without_httptools_h11_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    limits = ConnectionLimits()
    assert issubclass(connection_class(limits), HttpToolsProtocol)
    monkeypatch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
    chosen = connection_class(limits)
    assert issubclass(chosen, H11Connection)
    assert issubclass(chosen, asyncio.Protocol)


def test_many_incomplete_and_idle_connections_are_closed(run: Path) -> None:
    limits = ConnectionLimits(header_timeout=1.0)
    with run_server({"numbers": run}, limits=limits) as server, ExitStack() as stack:
        opened = [stack.enter_context(connect(server, HALF)) for _ in range(250)]
        opened += [stack.enter_context(connect(server)) for _ in range(100)]
        assert translate(server).status_code == 200
        for connection in opened:
            read_all(connection)
        assert server.log.count("incomplete request 408") == 250
