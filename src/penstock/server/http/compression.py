"""gzip of requests and answers. The size of a decompressed body is bounded."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.server.errors import ApiError, invalid
from penstock.server.http.message import JSON, Response

ANSWER_BYTES_MIN: Final = 1024
RATIO_MAX: Final = 200  # JSON compresses 10 to 20 times, a bomb 1,000 times
_THREAD_BYTES_MIN: Final = 64 * 1024
_RATIO_FREE_BYTES: Final = 1 << 20
_STEP_BYTES: Final = 1 << 20


def is_accepted(header: bytes) -> bool:
    """True when `Accept-Encoding` allows gzip."""
    for part in header.lower().split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def compress(response: Response, respond: Callable[[Response], None]) -> None:
    """Respond with the compressed answer. A thread compresses a large one."""
    if len(response.body) < _THREAD_BYTES_MIN:
        respond(compressed(response))
        return
    work = asyncio.get_running_loop().run_in_executor(None, compressed, response)
    work.add_done_callback(lambda done: respond(done.result()))


def compressed(response: Response) -> Response:
    """The compressed answer. Level 1, because an answer is sent once."""
    if response.content_type != JSON and not response.content_type.startswith(b"text/"):
        return response
    return msgspec.structs.replace(
        response,
        body=gzip.compress(response.body, 1, mtime=0),
        headers=(*response.headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")),
    )


def expanded(body: bytes, encoding: bytes, bytes_max: int) -> bytes:
    """The decompressed body of a request."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    if name not in (b"gzip", b"x-gzip"):
        raise ApiError(415, "unsupported_media_type", "unknown Content-Encoding: expected gzip")
    inflater = zlib.decompressobj(31)
    pieces: list[bytes] = []
    total = 0
    data = body
    try:
        while not inflater.eof:
            piece = inflater.decompress(data, _STEP_BYTES)
            if not piece and not inflater.eof:
                raise invalid("the gzip body is truncated")
            pieces.append(piece)
            total += len(piece)
            data = inflater.unconsumed_tail
            # After each step, so that a decompression bomb fails in its first megabyte.
            _check(total, len(body) - len(data), bytes_max)
    except zlib.error:
        raise invalid("the body is not valid gzip") from None
    if inflater.unused_data:
        raise invalid("invalid gzip body: extra bytes after its end")
    return b"".join(pieces)


def _check(total: int, size: int, bytes_max: int) -> None:
    if total > bytes_max or (total > _RATIO_FREE_BYTES and total > size * RATIO_MAX):
        raise ApiError(
            413, "payload_too_large", f"the decompressed body is larger than {bytes_max} bytes"
        )
