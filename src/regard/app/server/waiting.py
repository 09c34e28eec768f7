"""A request while it waits: until its answers are there, its time is over, or its client has left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from regard.app.server.batcher import Batcher, Ticket


@asynccontextmanager
async def waited_for(ticket: Ticket, batcher: Batcher, request: Request, seconds: float) -> AsyncIterator[None]:
    """Wait for answers within the block; TimeoutError and Gone end it, and what was not begun is not done."""
    leaving = asyncio.create_task(leave_with(request, ticket))
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        leaving.cancel()
        batcher.withdraw(ticket)


async def leave_with(request: Request, ticket: Ticket) -> None:
    """Once the client has left, nobody waits for the ticket."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    ticket.leave()
