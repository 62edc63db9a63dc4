"""The spool with one promise broken at a time, to see that the rig notices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from penstock.errors import SpoolFailed
from penstock.sender import frame_reader, opening, segment
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.segment_files import PreallocatedSegment, SegmentFiles, Writer
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool
from penstock.storage.fs import File
from penstock.testing.fs import MemoryFilesystem
from penstock.wire import spool_frame

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _nothing(*_: object, **__: object) -> None:
    pass


class _Unsynced:
    """A file that says it was synced."""

    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        pass


def _checksum_not_checked() -> list[Patch]:
    """A frame is taken by its magic and its length."""

    def trusts(data: bytes, offset: int) -> tuple[int, int] | None:
        if data[offset : offset + 4] != spool_frame.FRAME_MAGIC:
            return None
        length = 20 + int.from_bytes(data[offset + 4 : offset + 8], "little")
        fsn = int.from_bytes(data[offset + 8 : offset + 16], "little")
        return (fsn, length) if offset + length <= len(data) else None

    return [
        (segment, "read_frame", trusts),
        (opening, "scan", segment.scan),
        (frame_reader, "is_frame", lambda fsn, data: True),
    ]


def _place_not_checked() -> list[Patch]:
    """After damage any valid frame counts, also one inside a payload."""
    return [(segment, "_is_placed", lambda data, at, seed: True)]


def _no_way_back_after_damage() -> list[Patch]:
    """The first bad frame ends the segment."""
    return [(segment, "_resume", _nothing)]


def _no_sync_before_return() -> list[Patch]:
    promote = SegmentFiles.promote

    def hurries(self: SegmentFiles, spare: PreallocatedSegment, base: int) -> Writer:
        writer = promote(self, spare, base)
        writer.file = _Unsynced(writer.file)
        return writer

    return [(SegmentFiles, "promote", hurries)]


def _segment_without_a_durable_name() -> list[Patch]:
    return [(MemoryFilesystem, "sync_dir", _nothing)]


def _acked_before_the_dead_letter() -> list[Patch]:
    reject = Spool.reject

    def hurries(self: Spool, fsn: int, rejection: Rejection) -> None:
        self._watermark.record(fsn, self.published_fsn)
        reject(self, fsn, rejection)

    return [(Spool, "reject", hurries)]


def _trimmed_before_the_watermark() -> list[Patch]:
    return [(AckWatermark, "record_durably", _nothing)]


def _failed_file_used_again() -> list[Patch]:
    """As if a failed sync could be repeated."""
    return [(Spool, "_mark_failed", _nothing)]


def _number_burnt_by_a_failure() -> list[Patch]:
    """A frame that was refused leaves a hole in the numbers."""
    append = Spool.append

    def burns(self: Spool, parts: list[bytes]) -> int:
        try:
            return append(self, parts)
        except SpoolFailed:
            self._progress.published += 1
            raise

    return [(Spool, "append", burns)]


# Those that harm to files shows, and those that crashes show.
BLIND = {
    make.__name__.lstrip("_"): make
    for make in (_checksum_not_checked, _place_not_checked, _no_way_back_after_damage)
}
HASTY = {
    make.__name__.lstrip("_"): make
    for make in (
        _no_sync_before_return,
        _segment_without_a_durable_name,
        _acked_before_the_dead_letter,
        _trimmed_before_the_watermark,
        _failed_file_used_again,
        _number_burnt_by_a_failure,
    )
}


@contextlib.contextmanager
def mutant(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for where, attribute, instead in (BLIND | HASTY)[name]():
            stack.enter_context(mock.patch.object(where, attribute, instead))
        yield
