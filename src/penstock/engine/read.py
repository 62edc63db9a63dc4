"""The path of a read: plan under the topic's lock, copy without it."""

from __future__ import annotations

import bisect
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from penstock import limits
from penstock.codec import options as show
from penstock.engine.handle import Handle
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.storage.segments.reader import Segment
from penstock.topics import reading
from penstock.topics.names import short_text, tag_match
from penstock.topics.reading import ReadPlan
from penstock.types import FramesPage, JsonPage, Page, Record, TagMatch

_RECORDS = msgspec.json.Decoder(list[Record])
_VALUES = msgspec.json.Decoder(list[Any])
_RAW_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])
_first = operator.attrgetter("first")
_QUICK_RECORDS_MAX = 20_000  # walked past filters without asking for a thread
_STEP = 4096  # records planned at a time


class Projector(Protocol):
    """A run that can give its records to a reader: a block or a segment."""

    def project(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        nodes: list[bytes] | None,
        limit: int,
        budget: int,
        options: int,
        match: TagMatch | None = None,
    ) -> tuple[bytes, int, int]:
        """(a JSON array or frames, how many, the first index not looked at)"""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader wants to see. `is_wire` spells the keys as the HTTP API does."""

    limit: int
    max_bytes: int
    nodes: tuple[bytes, ...]
    match: TagMatch | None
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
    tag: object = None,
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
        None if tag is None else tag_match(tag),
        **shown,
    )


class _Haul:
    """What one read has gathered: texts or frames, how many and how large, and how far it came."""

    __slots__ = ("at", "count", "is_full", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.size = 0
        self.at = 0  # the last seq looked at
        self.is_full = False  # nothing more may be added: a bound or damage was met


class NotHot(Exception):
    """A read that may not touch a disk would have to."""


def is_quick(handle: Handle, after: int, wanted: ReadOptions) -> bool:
    """Can this read neither wait for a disk nor walk far? Expiry is logged, and a filter may
    pass over everything there is."""
    if handle.topic.config.ttl_ms:
        return False
    is_filtered = wanted.match is not None or wanted.nodes
    if is_filtered and handle.topic.head - after > _QUICK_RECORDS_MAX:
        return False
    return is_hot(handle, after)


def is_hot(handle: Handle, after: int) -> bool:
    """Are all records past `after` still in memory? Runs are in order, and sealed ones come
    first, so one look tells."""
    with handle.lock:
        spans = handle.topic.spans
        at = bisect.bisect_right(spans, after + 1, key=_first) - 1
        return not spans or not spans[max(at, 0)].run.is_sealed


def is_cold(handle: Handle, after: int) -> bool:
    """Is the first record past `after` in the cold tier?"""
    with handle.lock:
        spans = handle.topic.spans
        at = bisect.bisect_right(spans, after + 1, key=_first) - 1
        run = spans[max(at, 0)].run if spans else None
        return isinstance(run, Segment) and run.is_cold


def prepare_delete(
    handle: Handle, before_seq: int | None, match: TagMatch | None, seqs: Sequence[int]
) -> None:
    """Load what a delete will look at, before it is logged: an index that has to be built from a
    cold tier that is away must not be met when there is no way back. ColdUnavailable."""
    wanted = [*seqs, *([] if before_seq is None else [before_seq])]
    with handle.lock:
        runs = [
            span.run
            for span in handle.topic.spans
            if isinstance(span.run, Segment)
            and span.run.is_cold
            and (match is not None or any(span.first <= seq <= span.last for seq in wanted))
        ]
    for run in runs:
        run.prepare(tags=match is not None)


def read_json(
    handle: Handle, after: int, epoch: int | None, wanted: ReadOptions, *, hot_only: bool = False
) -> JsonPage:
    """Records past `after` as a JSON array. With `hot_only`, NotHot if some are on disk only."""
    haul, plan = _gather(handle, after, epoch, wanted, wanted.bits, hot_only=hot_only)
    return JsonPage(
        _joined(haul.parts),
        haul.count,
        plan.gap,
        haul.at,
        plan.head,
        plan.earliest,
        haul.at >= plan.head,
        plan.epoch,
    )


def read_frames(
    handle: Handle, after: int, epoch: int | None, wanted: ReadOptions, *, hot_only: bool = False
) -> FramesPage:
    """Records past `after` as the frames that hold them. With `hot_only` as in `read_json`."""
    haul, plan = _gather(handle, after, epoch, wanted, show.FRAMES, hot_only=hot_only)
    parts = haul.parts
    return FramesPage(
        parts[0] if len(parts) == 1 else b"".join(parts),
        haul.count,
        plan.gap,
        haul.at,
        plan.head,
        plan.earliest,
        haul.at >= plan.head,
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


def value_of(text: msgspec.Raw) -> Any:
    """A payload as a value."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        return json.loads(bytes(text), parse_int=_any_int)


def values_of(texts: Sequence[msgspec.Raw]) -> list[Any]:
    """Payloads as values, all in one go."""
    try:
        return _VALUES.decode(b"[%b]" % b",".join(texts))
    except msgspec.ValidationError:
        return [value_of(text) for text in texts]


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


def _gather(
    handle: Handle,
    after: int,
    epoch: int | None,
    wanted: ReadOptions,
    bits: int,
    *,
    hot_only: bool,
) -> tuple[_Haul, ReadPlan]:
    """A page's worth, and the plan that says what else its reader must know. Goes on past what
    was deleted or filtered, as far as one read may walk, so that a reader of few of the records
    does not need a call for each."""
    haul = _Haul()
    left = limits.READ_SCAN_MAX
    earlier: ReadPlan | None = None
    while True:
        step = min(max(wanted.limit * 2, _STEP), max(left, 1))
        with handle.lock:
            nodes = list(wanted.nodes) if handle.topic.config.dedupe_node else []
            plan = reading.plan(handle.topic, after=after, epoch=epoch, records_max=step)
        # Looked at here, since upkeep may have sealed a run after `is_quick` said that there was
        # none. A block that is sealed from now on stays readable in memory through its stretch.
        if hot_only and any(stretch.run.is_sealed for stretch in plan.stretches):
            raise NotHot
        if plan.gap is not None and haul.count:
            return haul, earlier or plan  # it came up meanwhile, and is for the next read to tell
        earlier = plan
        _walk(haul, plan, wanted, nodes or None, bits)
        left -= max(0, haul.at - plan.after)
        if haul.is_full or plan.gap is not None or haul.at >= plan.last or left <= 0:
            return haul, plan
        after = haul.at


def _walk(
    haul: _Haul, plan: ReadPlan, wanted: ReadOptions, nodes: list[bytes] | None, bits: int
) -> None:
    """Add what the plan's stretches hold."""
    haul.at = plan.after
    for stretch in plan.stretches:
        run: Projector = stretch.run  # type: ignore[assignment]  # runs made by the engine project
        if haul.count and haul.size >= wanted.max_bytes:
            haul.is_full = True
            return
        try:
            text, delivered, index = run.project(
                stretch.start,
                stretch.stop,
                stretch.dead,
                nodes,
                wanted.limit - haul.count,
                wanted.max_bytes - haul.size,
                bits,
                wanted.match,
            )
        except CorruptFrame:
            if not haul.count:
                raise
            haul.is_full = True  # what came before the damage; the next read meets it
            return
        if delivered:
            haul.parts.append(text)
            haul.count += delivered
            haul.size += len(text)
        haul.at = stretch.first + index - 1
        if index < stretch.stop or haul.count >= wanted.limit:
            haul.is_full = True
            return
    if not plan.is_cut:
        haul.at = max(haul.at, plan.last)  # nothing lives beyond: skipped, or a gap comes next
