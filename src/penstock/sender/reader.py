"""Read frames back, each checked, through one file handle: a spool may have thousands of
segments, and is read from its oldest frame on."""

from __future__ import annotations

import threading

from penstock.sender.index import Piece
from penstock.storage.fs import File, Filesystem
from penstock.wire.spool_frame import BadFrame, decode_frame


def is_frame(fsn: int, data: bytes) -> bool:
    """Whether these bytes are the whole frame with this number."""
    try:
        return decode_frame(data)[0] == fsn
    except BadFrame:
        return False


class Reader:
    """Safe from several threads."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._lock = threading.Lock()  # guards the next
        self._open: tuple[str, File] | None = None

    def read(self, piece: Piece) -> list[bytes | None]:
        """The frames of a piece; None for one that is no longer what it was."""
        frames = self._frames(piece)
        if None in frames:
            # The file may have been made anew since it was opened.
            self.drop()
            frames = self._frames(piece)
        return frames

    def drop(self) -> None:
        """Close the file; the next read opens it again by its name."""
        with self._lock:
            self._drop()

    def _frames(self, piece: Piece) -> list[bytes | None]:
        start = piece.frames[0][0]
        data = self._bytes(piece.segment.path, start, sum(piece.frames[-1]) - start)
        found: list[bytes | None] = []
        for fsn, (offset, length) in enumerate(piece.frames, piece.first_fsn):
            frame = data[offset - start : offset - start + length]
            found.append(frame if is_frame(fsn, frame) else None)
        return found

    def _bytes(self, path: str, offset: int, size: int) -> bytes:
        with self._lock:
            if self._open is None or self._open[0] != path:
                self._drop()
                self._open = (path, self._fs.open(path))
            return self._open[1].read_at(offset, size)

    def _drop(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None
