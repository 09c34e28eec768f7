"""Limits on connections: time and size of a request's headers, and how many connections are open at once.

uvicorn closes a connection that is idle after a request (`timeout_keep_alive`), but keeps one open that sends
nothing or half of its headers, and its httptools parser takes headers of any size.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.access import LARGEST_HEADERS, OVERLOADED, TOO_LARGE_HEADERS
from regard.server.answers import refusal
from regard.server.request_log import PROTECTING

LINGER = 2.0
"""Seconds in which a refused client may go on sending: closing at once could lose the reason on its way."""
CHUNK = 256 * 1024
"""Bytes that asyncio reads from a socket at a time."""
TURNS = itertools.count()


@dataclass(frozen=True)
class ConnectionLimits:
    """What the server allows its connections."""

    header_seconds: float = 10.0
    """For a request's headers to arrive: from the opening, or from the first byte after the last request."""
    connections: int = 500
    """Open at once. For one more, the one that waits longest without a request is closed; if all are being
    answered, the new one gets a 503."""
    refused: Callable[[int], object] = lambda status: None
    """Is called with the status of a request refused here, which the application never receives."""


class LimitedConnection(asyncio.Protocol):
    """Mixin for uvicorn's protocol classes, which have no common base; one instance is one connection."""

    limits: ClassVar[ConnectionLimits]

    # uvicorn's
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    flow: FlowControl
    connections: set[Any]
    app_state: dict[str, Any]
    cycle: Any
    """The last request whose headers are complete, or None."""

    timer: asyncio.TimerHandle | None = None
    header_bytes = 0
    """Received since the last request, while headers are not complete."""
    turn = 0
    """Grows with every opening and every request of all connections: the lowest waits longest."""
    excess = False
    """Whether it was opened beyond the limit, to receive a 503."""
    discarding = False
    """Whether it was refused, and what it sends is dropped."""

    @property
    def reading_headers(self) -> bool:
        """Whether the next byte belongs to the headers of a request."""
        raise NotImplementedError

    @property
    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.turn = next(TURNS)
        self.start_timer(self.limits.header_seconds)
        if len(self.connections) > self.limits.connections:
            self.make_room()

    def make_room(self) -> None:
        """Close the connection that waits longest for its client; if there is none, refuse this one."""
        others = self.connections - {self}
        waiting = [other for other in others if not other.answering and not other.excess]
        if waiting:
            max_length = min(waiting, key=lambda other: other.turn)
            self.connections.discard(max_length)  # uvicorn does so only when the event loop gets to it
            max_length.transport.abort()
        elif len(others) >= 2 * self.limits.connections:
            self.transport.abort()
        else:
            self.excess, self.app_state = True, {**self.app_state, OVERLOADED: True}

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.discarding:
            return
        last = self.cycle
        if self.reading_headers:
            self.header_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is not last:  # the headers are complete
            self.stop_timer()
            self.header_bytes, self.turn = 0, next(TURNS)
        if self.answering:
            if self.header_bytes > LARGEST_HEADERS:
                self.flow.pause_reading()  # a pipelined request waits for the response, uvicorn resumes then
        elif self.header_bytes > LARGEST_HEADERS:
            self.refuse(431, TOO_LARGE_HEADERS)
        elif self.timer is None:
            self.start_timer(self.limits.header_seconds)

    def start_timer(self, seconds: float) -> None:
        self.stop_timer()
        self.timer = self.loop.call_later(seconds, self.timed_out)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def timed_out(self) -> None:
        if self.discarding or self.transport.is_closing():  # a client that does not read would keep it open
            self.transport.abort()
        elif self.header_bytes and self.reading_headers:
            seconds = self.limits.header_seconds
            self.refuse(408, f"the headers of the request were not complete within {seconds:g} s")
        else:
            self.transport.close()

    def refuse(self, status: int, sentence: str) -> None:
        """Answer in place of the application, and close when the client has read it."""
        response = refusal(status, sentence, {"Connection": "close"})
        for name, value in PROTECTING.items():
            response.headers[name] = value
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.write_eof()
        self.discarding = True
        self.start_timer(LINGER)
        self.limits.refused(status)


class H11Connection(LimitedConnection, H11Protocol):
    @property
    def reading_headers(self) -> bool:
        return self.conn.their_state is h11.IDLE


def connection_class(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn: httptools if it is installed, as uvicorn chooses, otherwise h11."""
    try:
        from regard.server.httptools_connections import HttptoolsConnection
    except ImportError:
        return with_limits(H11Connection, limits)
    return with_limits(HttptoolsConnection, limits)


def with_limits(base: type[LimitedConnection], limits: ConnectionLimits) -> type[LimitedConnection]:
    return type(base.__name__, (base,), {"limits": limits})
