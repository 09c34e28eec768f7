"""Viewer pages, kept for a while under names that cannot be guessed, for a browser to open in a frame."""

import secrets
import time
from collections.abc import Callable

KEPT_SECONDS = 600.0
KEPT_BYTES = 1 << 26
POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""What a browser may do with a viewer page, as a page of no site; its own policy names the scripts in it."""


class Views:
    """The newest pages: none older than ten minutes, all together no larger than 64 MiB."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._kept: dict[str, tuple[float, bytes]] = {}

    def keep(self, page: bytes) -> str:
        """The name under which the page can be had."""
        self._forget(len(page))
        name = secrets.token_urlsafe(24)
        self._kept[name] = self.clock(), page
        return name

    def get(self, name: str) -> bytes | None:
        self._forget(0)
        found = self._kept.get(name)
        return None if found is None else found[1]

    def _forget(self, wanted: int) -> None:
        """Drop the oldest until the rest is young enough, and leaves room for so many bytes."""
        oldest = self.clock() - KEPT_SECONDS
        size = wanted + sum(len(page) for _, page in self._kept.values())
        for name, (kept, page) in list(self._kept.items()):
            if kept >= oldest and size <= KEPT_BYTES:
                break
            del self._kept[name]
            size -= len(page)
