"""Sends a request over asyncio to a server that may refuse it before it has read all of it.

Such a server answers and closes, so sending fails. Its answer is read nevertheless, because it has
the reason.
"""

from __future__ import annotations

import contextlib

from penstock.client.async_connection import AsyncConnection
from penstock.client.async_response_stream import receive
from penstock.client.attempt_failed import AttemptFailed, Failure, failed
from penstock.client.http import ResponseReader


async def send(
    connection: AsyncConnection, reader: ResponseReader, data: bytes, deadline: float
) -> None:
    """Send a request. After an early refusal the reader has the whole answer. Raises AttemptFailed
    if sending fails without one."""
    try:
        await connection.send(data, deadline)
    except OSError as error:
        with contextlib.suppress(AttemptFailed):
            while not reader.is_done:
                await receive(connection, reader, deadline)
        if not reader.is_done:
            raise failed(Failure.LOST, error) from None
