"""The bytes of one response over asyncio: received from a connection and parsed.

A lost connection and bytes that are not HTTP are raised as `AttemptFailed`.
"""

from __future__ import annotations

from penstock.client.async_connection import AsyncConnection
from penstock.client.attempt_failed import AttemptFailed, Failure, failed
from penstock.client.http import BadAnswer, HttpResponse, ResponseReader


class AsyncResponseStream:
    """A response whose head has been read; its body is read in pieces."""

    def __init__(self, connection: AsyncConnection, reader: ResponseReader) -> None:
        self.status = reader.status
        self._connection = connection
        self._reader = reader

    async def read(self, deadline: float) -> bytes:
        """The next bytes; empty at the end of the stream."""
        while True:
            piece = self._reader.pop_body()
            if piece or self._reader.is_done:
                return piece
            data = await _received(self._connection, deadline)
            if not data:
                return b""
            _feed(self._reader, data)

    async def rest(self, deadline: float) -> HttpResponse:
        """The whole response, for one that is not a stream."""
        parts = []
        while piece := await self.read(deadline):
            parts.append(piece)
        return HttpResponse(self.status, self._reader.headers, b"".join(parts))


async def receive(connection: AsyncConnection, reader: ResponseReader, deadline: float) -> None:
    """Parse the next bytes of a response that is not complete."""
    data = await _received(connection, deadline)
    if not data:
        raise AttemptFailed(Failure.LOST, "the connection was closed before the answer")
    _feed(reader, data)


async def _received(connection: AsyncConnection, deadline: float) -> bytes:
    try:
        return await connection.receive(deadline)
    except OSError as error:
        raise failed(Failure.LOST, error) from None


def _feed(reader: ResponseReader, data: bytes) -> None:
    try:
        reader.feed(data)
    except BadAnswer as error:
        raise failed(Failure.LOST, error) from None
