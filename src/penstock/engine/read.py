"""The path of a read: plan under the topic's lock, copy without it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from penstock import limits
from penstock.codec import options as show
from penstock.engine.handle import Handle
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.topics import reading
from penstock.topics.names import short_text
from penstock.topics.reading import ReadPlan
from penstock.types import JsonPage, Page, Record

_RECORDS = msgspec.json.Decoder(list[Record])
_RAW_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])
_STEP = 4096  # records planned at a time


class Projector(Protocol):
    """A run that can write its records as JSON: a block or a segment."""

    def project(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        nodes: list[bytes] | None,
        limit: int,
        budget: int,
        options: int,
    ) -> tuple[bytes, int, int]:
        """(a JSON array, how many, the first index not looked at)"""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader wants to see. `is_wire` spells the keys as the HTTP API does."""

    limit: int
    max_bytes: int
    nodes: tuple[bytes, ...]
    include_tags: bool = True
    include_meta: bool = True
    include_data: bool = True
    is_wire: bool = False

    @property
    def bits(self) -> int:
        return (
            show.ARRAY
            | (show.TAG if self.include_tags else 0)
            | (show.META if self.include_meta else 0)
            | (show.DATA if self.include_data else 0)
            | (show.DOLLAR if self.is_wire else 0)
        )


def options(
    limit: int | None,
    node: str | list[str] | tuple[str, ...] | None,
    max_bytes: int | None,
    **shown: bool,
) -> ReadOptions:
    """Checked options; sizes beyond the bounds are clamped, senseless ones refused."""
    if limit is None:
        limit = limits.READ_RECORDS_DEFAULT
    if not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
    if node is not None and not isinstance(node, (str, list, tuple)):
        raise InvalidArgument(f"node must be text or a list of texts, not {node!r}")
    names = [node] if isinstance(node, str) else list(node or ())
    return ReadOptions(
        min(limit, limits.READ_RECORDS_MAX),
        min(max_bytes or limits.READ_BYTES_MAX, limits.READ_BYTES_MAX),
        tuple(short_text("node", name, limits.NODE_BYTES_MAX) for name in names),
        **shown,
    )


def read_json(handle: Handle, after: int, epoch: int | None, wanted: ReadOptions) -> JsonPage:
    """Records past `after` as a JSON array."""
    walked = 0
    while True:
        with handle.lock:
            nodes = list(wanted.nodes) if handle.topic.config.dedupe_node else []
            plan = reading.plan(
                handle.topic, after=after, epoch=epoch, records_max=max(wanted.limit * 2, _STEP)
            )
        parts, count, at = _walk(plan, wanted, nodes or None)
        walked += max(0, at - plan.after)
        if count or plan.gap or at >= plan.last or walked >= limits.READ_SCAN_MAX:
            break
        after = at  # everything so far was deleted or filtered: go on
    return JsonPage(
        _joined(parts),
        count,
        plan.gap,
        at,
        plan.head,
        plan.earliest,
        at >= plan.head,
        plan.epoch,
    )


def read(handle: Handle, after: int, epoch: int | None, wanted: ReadOptions) -> Page:
    """The same, as values."""
    page = read_json(handle, after, epoch, wanted)
    return Page(
        _records(page.records),
        page.gap,
        page.next_seq,
        page.head_seq,
        page.earliest_seq,
        page.caught_up,
        page.epoch,
    )


def _records(array: bytes) -> list[Record]:
    try:
        return _RECORDS.decode(array)
    except msgspec.ValidationError:  # numbers that JSON allows and the fast decoder does not
        return [Record(**_slow_object(text)) for text in _RAW_OBJECTS.decode(array)]


def _slow_object(text: msgspec.Raw) -> dict[str, Any]:
    """Numbers beyond a float become infinite; integers too long for Python's limit, text."""
    return dict(json.loads(bytes(text), parse_int=_any_int))


def _any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def _joined(arrays: list[bytes]) -> bytes:
    """One JSON array of several. Most pages are one already, and copying it would cost as much
    as making it did."""
    if len(arrays) == 1:
        return arrays[0]
    return b"[%b]" % b",".join(array[1:-1] for array in arrays)


def _walk(
    plan: ReadPlan, wanted: ReadOptions, nodes: list[bytes] | None
) -> tuple[list[bytes], int, int]:
    """(JSON texts, records, last seq looked at)"""
    parts: list[bytes] = []
    count, size, at = 0, 0, plan.after
    bits = wanted.bits
    for stretch in plan.stretches:
        run: Projector = stretch.run  # type: ignore[assignment]  # runs made by the engine project
        if count and size >= wanted.max_bytes:
            return parts, count, at
        try:
            text, delivered, index = run.project(
                stretch.start,
                stretch.stop,
                stretch.dead,
                nodes,
                wanted.limit - count,
                wanted.max_bytes - size if count else wanted.max_bytes,
                bits,
            )
        except CorruptFrame:
            if count:
                return parts, count, at  # what came before the damage; the next read meets it
            raise
        if delivered:
            parts.append(text)
            count += delivered
            size += len(text)
        at = stretch.first + index - 1
        if index < stretch.stop or count >= wanted.limit:
            return parts, count, at
    if not plan.is_cut:
        at = max(at, plan.last)  # nothing lives beyond: skipped silently, or a gap comes next
    return parts, count, at
