"""Reads the records of jobs by their seqs, from memory or from segments."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from penstock.codec import projection_options as show
from penstock.engine.handle import Handle
from penstock.engine.read import Projector, value_of
from penstock.errors import CorruptFrame
from penstock.topics import read_plan
from penstock.topics.bitmap import indices_of
from penstock.topics.read_plan import IndexRange

_SHOWN = show.ARRAY | show.TAG | show.META | show.DATA


NO_META = msgspec.Raw(b"")


class Tagged(Protocol):
    """A run that can list the tags of its records."""

    def group_tags(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        base: int,
        groups: dict[bytes, bytearray],
    ) -> None:
        """Add the numbers of tagged records in start..stop-1, from `base` on, by tag."""


class RawJob(msgspec.Struct, frozen=True, gc=False):
    """A record whose payload is the text that was sent."""

    seq: int
    ts: int
    data: msgspec.Raw = msgspec.Raw(b"null")
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw = NO_META


class ValueJob(msgspec.Struct, frozen=True, gc=False):
    """A record whose payload is a value, for callers in this process."""

    seq: int
    ts: int
    data: Any = None
    tag: str | None = None
    node: str | None = None
    meta: Any = None


_RAW = msgspec.json.Decoder(list[RawJob])
_VALUES = msgspec.json.Decoder(list[ValueJob])
AnyJob = TypeVar("AnyJob", RawJob, ValueJob)


def raw(text: bytes) -> list[RawJob]:
    return _RAW.decode(text)


def values(text: bytes) -> list[ValueJob]:
    try:
        return _VALUES.decode(text)
    except msgspec.ValidationError:  # a number that is too long for the fast way
        return [
            ValueJob(
                job.seq,
                job.ts,
                value_of(job.data),
                job.tag,
                job.node,
                None if job.meta is NO_META else value_of(job.meta),
            )
            for job in _RAW.decode(text)
        ]


def read_jobs(
    handle: Handle, seqs: list[int], bytes_max: int, decode: Callable[[bytes], list[AnyJob]]
) -> tuple[list[AnyJob], CorruptFrame | None]:
    """The live records among ascending `seqs`, as many as fit, and the first damage found. Damaged
    and deleted records are left out."""
    return read_places(places_of(handle, seqs), bytes_max, decode)


def places_of(handle: Handle, seqs: list[int]) -> list[IndexRange]:
    """The places of the jobs among ascending `seqs`."""
    with handle.lock:
        return read_plan.places(handle.topic, seqs)


def are_in_memory(stretches: list[IndexRange]) -> bool:
    """True if they can be read without a file."""
    return not any(stretch.run.is_sealed for stretch in stretches)


def read_places(
    stretches: list[IndexRange], bytes_max: int, decode: Callable[[bytes], list[AnyJob]]
) -> tuple[list[AnyJob], CorruptFrame | None]:
    """`read_jobs` for known places."""
    jobs: list[AnyJob] = []
    damage: CorruptFrame | None = None
    left = bytes_max
    for stretch in stretches:
        for piece in itertools.chain([stretch], _singles(stretch)):
            try:
                text, _, stop = _projector(piece).project(
                    piece.start, piece.stop, piece.dead, None, piece.stop, left, _SHOWN
                )
            except CorruptFrame as error:
                damage = damage or error
                continue  # one by one now, past what is damaged
            if jobs and len(text) > left:
                return jobs, damage
            jobs += decode(text)
            left -= len(text)
            if stop < piece.stop or left <= 0:
                return jobs, damage
            if piece is stretch:
                break
    return jobs, damage


def tags_of(stretches: list[IndexRange]) -> dict[int, str]:
    """The tags of these records, by seq. Damaged records are left out."""
    found: dict[int, str] = {}
    for stretch in stretches:
        base = stretch.first + stretch.start
        groups: dict[bytes, bytearray] = {}
        try:
            _tagged(stretch, groups)
        except (CorruptFrame, ValueError, IndexError):
            groups = {}
            for piece in _singles(stretch):
                with contextlib.suppress(CorruptFrame, ValueError, IndexError):
                    _tagged(piece, groups, piece.start - stretch.start)
        for tag, packed in groups.items():
            text = tag.decode("utf-8", "replace")
            found.update((base + index, text) for index in indices_of(bytes(packed)))
    return found


def _tagged(stretch: IndexRange, groups: dict[bytes, bytearray], base: int = 0) -> None:
    run: Tagged = stretch.run  # type: ignore[assignment]  # runs made by the engine tell tags
    run.group_tags(stretch.start, stretch.stop, None, base, groups)


def _singles(stretch: IndexRange) -> Iterator[IndexRange]:
    run, first, dead = stretch.run, stretch.first, stretch.dead
    return (IndexRange(run, first, at, at + 1, dead) for at in range(stretch.start, stretch.stop))


def _projector(stretch: IndexRange) -> Projector:
    return stretch.run  # type: ignore[return-value]  # runs made by the engine project
