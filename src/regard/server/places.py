"""The place where a server listens."""

import errno
import socket
from ipaddress import ip_address

from regard.errors import RegardError


def bound_socket(host: str, port: int) -> socket.socket:
    """The place to listen at; where there is none, one sentence says why."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError):
        raise RegardError(f"--host {host}: there is no such address") from None
    # Told its protocol, asyncio sends at once; else an answer's body waits 40 ms for its head's receipt.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise RegardError(
                f"port {port} of {host} is taken; choose another with --port, or 0 for a free one"
            ) from None
        reason = (problem.strerror or str(problem)).lower()
        raise RegardError(f"port {port} of {host} cannot be listened at: {reason}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    """What a browser is to be told."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine reaches it."""
    return ip_address(listener.getsockname()[0]).is_loopback
