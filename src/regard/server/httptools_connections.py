"""Connections that httptools parses; it is an optional dependency of uvicorn."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regard.server.connections import LimitedConnection


class HttptoolsConnection(LimitedConnection, HttpToolsProtocol):
    in_body = False
    """Whether a request's headers are complete and its body is not."""

    @property
    def reading_headers(self) -> bool:
        return not self.in_body

    def on_headers_complete(self) -> None:
        self.in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_body = False
        super().on_message_complete()
