"""Reads frames from segments and checks each one, through one open file: a spool may have thousands
of segments, and reads are sequential."""

from __future__ import annotations

import threading

from penstock.sender.frame_index import FrameRun
from penstock.storage.fs import File, Filesystem
from penstock.wire.spool_frame import BadFrame, decode_frame


def is_frame(fsn: int, data: bytes) -> bool:
    """True when these bytes are the intact frame with this number."""
    try:
        return decode_frame(data)[0] == fsn
    except BadFrame:
        return False


class FrameReader:
    """Safe from several threads."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._lock = threading.Lock()  # guards the next
        self._open: tuple[str, File] | None = None

    def read(self, piece: FrameRun) -> list[bytes | None]:
        """The frames of a run; None for a damaged frame."""
        frames = self._frames(piece)
        if None in frames:
            # The file may have been replaced since it was opened.
            self.close()
            frames = self._frames(piece)
        return frames

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        with self._lock:
            self._close()

    def _frames(self, piece: FrameRun) -> list[bytes | None]:
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
                self._close()
                self._open = (path, self._fs.open(path))
            return self._open[1].read_at(offset, size)

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None
