"""A request while it waits: until its answers are there, or its client has left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from regard.server.batcher import Batcher, Job


@asynccontextmanager
async def attended(job: Job, batcher: Batcher, request: Request) -> AsyncIterator[None]:
    """Someone waits within the block; Gone ends it when the client leaves, and nothing more is begun."""
    leaving = asyncio.create_task(leave_with(request, job))
    try:
        yield
    finally:
        leaving.cancel()
        batcher.withdraw(job)


async def leave_with(request: Request, job: Job) -> None:
    """Once the client has left, nobody waits for the ticket."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.leave()
