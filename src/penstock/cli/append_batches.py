"""Batches of records to append: JSON lines from a file or a pipe."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator

import msgspec

from penstock import limits
from penstock.codec.json_text import check_depth
from penstock.errors import InvalidArgument

BATCH_RECORDS = 1_000
BATCH_BYTES = 8 * limits.MIB
LINGER_S = 0.2  # how long records of a slow pipe wait for more records
_READ_BYTES = 1 * limits.MIB
_LINE_BYTES_MAX = limits.RECORD_BYTES_MAX + limits.MIB

_check = msgspec.json.Decoder(msgspec.Raw).decode


class JsonLines:
    """Reads lines and returns batches of checked JSON texts. Empty lines are ignored."""

    def __init__(self, path: str | None, *, linger: bool) -> None:
        """`path` None or `-` is stdin. `linger` appends what a slow pipe has sent so far; without
        it the same input always makes the same batches."""
        self.done_bytes = 0
        self.total_bytes = 0
        self.name = "stdin" if path in (None, "-") else str(path)
        self._linger = linger
        self._line = 0
        if path in (None, "-"):
            if path is None and sys.stdin.isatty():
                raise InvalidArgument(
                    "no input: pass JSON arguments or --file FILE, or pipe JSON lines to stdin"
                )
            self._fd = sys.stdin.fileno()
        else:
            try:
                self._fd = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise InvalidArgument(f"cannot read {path}: {error.strerror}") from None
            self.total_bytes = os.fstat(self._fd).st_size

    def batches(self) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        held = 0
        for line in self._lines():
            if line is not None:
                batch.append(line)
                held += len(line)
            if batch and (line is None or len(batch) >= BATCH_RECORDS or held >= BATCH_BYTES):
                yield batch
                batch, held = [], 0
        if batch:
            yield batch

    def _lines(self) -> Iterator[bytes | None]:
        """Each line; None when the pipe has no more data at the moment."""
        rest = b""
        while True:
            if self._linger and not self._has_more():
                yield None
            chunk = os.read(self._fd, _READ_BYTES)
            self.done_bytes += len(chunk)
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop() if chunk else b""
            for line in lines:
                self._line += 1
                text = line.strip()
                if text:
                    yield self._checked(text)
            if not chunk:
                return
            if len(rest) > _LINE_BYTES_MAX:
                raise InvalidArgument(
                    f"{self.name} line {self._line + 1} is too long: expected at most "
                    f"{limits.RECORD_BYTES_MAX} bytes"
                )

    def _has_more(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], LINGER_S)
        return bool(ready)

    def _checked(self, text: bytes) -> bytes:
        check_depth([text], f"{self.name} line {self._line}")
        try:
            _check(text)
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"{self.name} line {self._line} is not JSON: {error}") from None
        return text
