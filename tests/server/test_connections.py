"""Connections that send nothing, half a request, or too much; and more of them than the server takes."""

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

from regard.server import connections
from regard.server.access import LARGEST_HEADERS, MOST_HEADERS
from regard.server.connections import ConnectionLimits, H11Connection, with_limits
from regard.server.httptools_connections import HttptoolsConnection

HOST = b"Host: localhost\r\n"
HALF = b"GET /health HTTP/1.1\r\n" + HOST + b"X-Half: "
PARSERS = {"h11": H11Connection, "httptools": HttptoolsConnection}


@pytest.fixture(scope="module", params=PARSERS)
def parser(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        base = PARSERS[request.param]
        patch.setattr("regard.server.running.connection_class", lambda limits: with_limits(base, limits))
        yield request.param


@pytest.fixture(scope="module")
def strict(run: Path, parser: str) -> Iterator[LiveServer]:
    """A server that waits half a second for headers and takes eight connections."""
    with run_server({"numbers": run}, limits=ConnectionLimits(header_seconds=0.5, connections=8)) as found:
        yield found


@contextmanager
def connected(found: LiveServer, sent: bytes = b"") -> Iterator[socket.socket]:
    place = urlsplit(found.address)
    with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
        connection.sendall(sent)
        yield connection


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes; ConnectionError where it breaks off."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def what_came(connection: socket.socket) -> bytes:
    """The same, and nothing where it breaks off."""
    with suppress(ConnectionError):
        return all_of(connection)
    return b""


def status_and_error(raw: bytes) -> tuple[int, str]:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert b"x-content-type-options: nosniff" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]


def healthy(found: LiveServer) -> bool:
    with found.client() as client:
        return client.get("/health").status_code == 200


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"x\r\n", b"G"])
def test_incomplete_headers_are_closed_while_others_are_answered(strict: LiveServer, sent: bytes) -> None:
    begun = time.monotonic()
    with connected(strict, sent) as connection:
        assert healthy(strict)
        raw = all_of(connection)
    assert 0.4 < time.monotonic() - begun < 3
    if sent:
        expected = (408, "the headers of the request were not complete within 0.5 s")
        assert status_and_error(raw) == expected
    else:
        assert raw == b""  # a browser that opens connections in advance expects no answer


def test_headers_that_come_byte_by_byte_get_no_longer(strict: LiveServer) -> None:
    begun = time.monotonic()
    with connected(strict, HALF) as connection:
        connection.settimeout(0.05)
        raw = b""
        while not raw:
            connection.sendall(b"x")
            try:
                raw = connection.recv(1 << 16)
            except TimeoutError:
                assert time.monotonic() - begun < 3
    assert status_and_error(raw)[0] == 408


def test_a_second_request_on_a_connection_has_the_same_time(strict: LiveServer) -> None:
    with connected(strict, b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n") as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        time.sleep(0.8)  # idle between requests is not half a request
        begun = time.monotonic()
        connection.sendall(HALF)
        assert status_and_error(all_of(connection))[0] == 408
        assert 0.4 < time.monotonic() - begun < 3


def test_a_body_that_nobody_waits_for_keeps_no_connection_open(strict: LiveServer) -> None:
    """A request refused before its body was read: uvicorn's idle timer ends with the next byte, for good."""
    start = b"POST /translate HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100000\r\n\r\n"
    with connected(strict, start) as connection:
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 421")
        begun = time.monotonic()
        connection.sendall(b"x")
        assert all_of(connection) == b""
        assert time.monotonic() - begun < 3


def test_a_slow_answer_is_not_a_slow_request(strict: LiveServer) -> None:
    with PausedModel(strict.model) as held, ThreadPoolExecutor(1) as pool, strict.client() as client:
        answer = pool.submit(client.post, "/translate", json={"text": "eins"})
        assert held.started.wait(10)
        time.sleep(0.8)
        held.resume.set()
        assert answer.result(10).json()["translations"][0]["text"] == "one"


def with_headers(*more: bytes) -> bytes:
    return b"GET /health HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in more) + b"\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        with_headers(b"X-Large: " + b"x" * (1 << 20)),
        with_headers(b"X-Large: " + b"x" * LARGEST_HEADERS),
        with_headers(*(b"X-%d: y" % number for number in range(10_000))),
        with_headers(*(b"X-%d: y" % number for number in range(MOST_HEADERS))),
        b"GET /health?" + b"x" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /" + b"x" * (1 << 20),
    ],
    ids=["1 MB", "64 KiB", "10,000", "101", "line", "half a line"],
)
def test_large_headers_are_refused(strict: LiveServer, sent: bytes) -> None:
    with connected(strict, sent) as connection:
        status, error = status_and_error(all_of(connection))
    assert (status, error) == (431, "the headers are more than 65,536 bytes or more than 100; send fewer")
    assert healthy(strict)


def test_headers_within_the_limits_are_taken(strict: LiveServer) -> None:
    many = {f"X-{number}": "y" for number in range(90)}
    large = {"X-Large": "x" * (LARGEST_HEADERS - 1000)}
    with strict.client() as client:
        assert [client.get("/health", headers=each).status_code for each in (many, large)] == [200, 200]


def test_a_pipelined_request_with_large_headers_does_not_spoil_the_one_before(strict: LiveServer) -> None:
    body = b'{"text": "eins"}'
    first = (
        b"POST /translate HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nContent-Length: 16\r\n\r\n"
        + body
    )
    with (
        PausedModel(strict.model) as held,
        connected(strict, first) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        assert held.started.wait(10)
        sending = pool.submit(send_all_it_takes, connection, with_headers(b"X: " + b"x" * (1 << 22)))
        time.sleep(0.2)
        held.resume.set()
        raw = all_of(connection)
        sending.result(10)
    answered, _, refused = raw.partition(b"HTTP/1.1 431")
    assert b'"text":"one"' in answered
    assert refused


def send_all_it_takes(connection: socket.socket, sent: bytes) -> None:
    with suppress(ConnectionError):
        connection.sendall(sent)


def test_two_hosts_are_refused(strict: LiveServer, parser: str) -> None:
    with connected(strict, with_headers(b"Host: localhost")) as connection:
        raw = all_of(connection)
    if parser == "h11":  # which refuses it itself
        assert raw.startswith(b"HTTP/1.1 400 ")
    else:
        assert status_and_error(raw) == (400, "the request has 2 Host headers; send one")


def test_connections_that_wait_longest_make_room_for_new_ones(strict: LiveServer) -> None:
    wait_until(lambda: strict.connections == 0)
    with ExitStack() as stack:
        first, second = [], []
        for group in (first, second):
            group += [stack.enter_context(connected(strict, HALF)) for _ in range(4)]
            wait_until(lambda: strict.connections == len(first) + len(second))
        second += [stack.enter_context(connected(strict, HALF)) for _ in range(4)]
        assert [what_came(connection) for connection in first] == [b""] * 4
        assert [status_and_error(what_came(connection))[0] for connection in second] == [408] * 8


def test_a_crowd_of_idle_connections_keeps_nobody_out(strict: LiveServer) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connected(strict, HALF))
        assert ask(strict).status_code == 200


def test_one_more_than_the_limit_is_told_so(strict: LiveServer) -> None:
    wait_until(lambda: strict.app.watch.open == 0)  # of earlier tests
    with ThreadPoolExecutor(8) as pool, PausedModel(strict.model) as held:
        accepted = [pool.submit(ask, strict) for _ in range(8)]
        assert held.started.wait(10)
        wait_until(lambda: strict.app.watch.open == 8)
        for _ in range(2):
            refused = ask(strict)
            assert refused.status_code == 503
            assert refused.json()["error"].startswith("the server has as many open connections as it takes")
            assert refused.headers["retry-after"] == "2"
        held.resume.set()
        assert [each.result(10).status_code for each in accepted] == [200] * 8
    assert ask(strict).status_code == 200
    with strict.client() as client:
        assert 'regard_refused_total{reason="unavailable"} 2' in client.get("/metrics").text


def ask(found: LiveServer) -> httpx.Response:
    with found.client() as client:
        return client.post("/translate", json={"text": "eins"})


def test_a_flood_is_cut_off(strict: LiveServer) -> None:
    """Twice the limit is open at most, whatever the others are doing."""
    with ThreadPoolExecutor(8) as pool, PausedModel(strict.model) as held, ExitStack() as stack:
        accepted = [pool.submit(ask, strict) for _ in range(8)]
        wait_until(lambda: strict.app.watch.open == 8)
        more = [stack.enter_context(connected(strict)) for _ in range(20)]
        wait_until(lambda: len(select.select(more, [], [], 0)[0]) == 12)  # which were closed
        for connection in more:
            send_all_it_takes(connection, with_headers())
        ends = [what_came(connection) for connection in more]
        assert [status_and_error(each)[0] for each in ends if each] == [503] * 8
        held.resume.set()
        assert [each.result(10).status_code for each in accepted] == [200] * 8


def test_without_httptools_h11_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    limits = ConnectionLimits()
    assert issubclass(connections.connection_class(limits), HttptoolsConnection)
    monkeypatch.setitem(sys.modules, "regard.server.httptools_connections", None)
    taken = connections.connection_class(limits)
    assert issubclass(taken, H11Connection)
    assert issubclass(taken, asyncio.Protocol)


def test_many_half_sent_and_idle_connections_are_all_closed(run: Path) -> None:
    limits = ConnectionLimits(header_seconds=1.0)
    with run_server({"numbers": run}, limits=limits) as found, ExitStack() as stack:
        opened = [stack.enter_context(connected(found, HALF)) for _ in range(250)]
        opened += [stack.enter_context(connected(found)) for _ in range(100)]
        assert ask(found).status_code == 200
        for connection in opened:
            all_of(connection)
        assert found.log.count("incomplete request 408") == 250
