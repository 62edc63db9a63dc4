"""The path of a read: plan under the topic's lock, copy without it."""

from __future__ import annotations

import bisect
import json
import operator
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from penstock import limits
from penstock.codec import projection_options as show
from penstock.codec.columns import NO_COLUMNS, NODE, Columns, ColumnsPage
from penstock.engine.handle import Handle
from penstock.engine.scan_budget import ScanBudget, is_quick_scan
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.storage.segments.reader import Segment
from penstock.topics import read_plan, seek_by_time
from penstock.topics.read_plan import IndexRange, ReadPlan
from penstock.topics.validation import short_text, tag_match
from penstock.types import FramesPage, JsonPage, Page, Record, TagMatch
from penstock.verb_keywords import JsonKeywords, ReadKeywords

_RECORDS = msgspec.json.Decoder(list[Record])
_RAW_OBJECTS = msgspec.json.Decoder(list[msgspec.Raw])
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_first = operator.attrgetter("first")


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

    def columns(
        self,
        start: int,
        stop: int,
        dead: bytearray | None,
        records_max: int,
        bytes_max: int,
        wanted: int,
        first_seq: int,
        match: TagMatch | None = None,
    ) -> tuple[Columns, int]:
        """(the records column by column, the first index not looked at)"""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read. `is_wire` names the keys as the HTTP API does."""

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
    """Checked options; sizes beyond the bounds are clamped, invalid ones refused."""
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


def parsed(
    limit: int | None, keywords: ReadKeywords | JsonKeywords, *, is_wire: bool = False
) -> tuple[int | None, ReadOptions]:
    """The expected epoch and the checked options of a verb's keywords."""
    given: dict[str, Any] = {"node": None, "max_bytes": None, **keywords}
    epoch = given.pop("epoch", None)
    return epoch, options(limit, is_wire=is_wire, **given)


class PageBuilder:
    """The result of a read so far: texts or frames, their number and bytes, and the last index."""

    __slots__ = ("_bits", "at", "count", "is_full", "parts", "size")

    def __init__(self, bits: int = 0) -> None:
        self._bits = bits  # how the records are shown
        self.parts: list[bytes] = []
        self.count = 0
        self.size = 0
        self.at = 0  # the last seq looked at
        self.is_full = False  # nothing more may be added: a bound or damage was met

    def add(self, stretch: IndexRange, wanted: ReadOptions, nodes: list[bytes] | None) -> int:
        """Add what there is room for; the first index not looked at."""
        run: Projector = stretch.run  # type: ignore[assignment]  # runs made by the engine project
        text, delivered, index = run.project(
            stretch.start,
            stretch.stop,
            stretch.dead,
            nodes,
            wanted.limit - self.count,
            wanted.max_bytes - self.size,
            self._bits,
            wanted.match,
        )
        if delivered:
            self.parts.append(text)
            self.count += delivered
            self.size += len(text)
        return index


class ColumnsBuilder(PageBuilder):
    """The same column by column. A page ends with the run that its records are in, so that their
    columns are never joined."""

    __slots__ = ("_wanted", "columns")

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self._wanted = wanted  # bits of codec.columns
        self.columns = NO_COLUMNS

    def add(self, stretch: IndexRange, wanted: ReadOptions, nodes: list[bytes] | None) -> int:
        run: Projector = stretch.run  # type: ignore[assignment]
        dead, stop = stretch.dead, stretch.stop
        if nodes:
            dead, stop = _without_nodes(run, stretch, wanted, nodes)
        self.columns, index = run.columns(
            stretch.start,
            stop,
            dead,
            wanted.limit,
            wanted.max_bytes,
            self._wanted,
            stretch.first,
            wanted.match,
        )
        self.count = self.columns.count
        self.is_full = self.count > 0
        return index


def _without_nodes(
    run: Projector, stretch: IndexRange, wanted: ReadOptions, nodes: list[bytes]
) -> tuple[bytearray, int]:
    """(the dead records of a stretch and those of these nodes, the first index not looked at)"""
    found, index = run.columns(
        stretch.start,
        stretch.stop,
        stretch.dead,
        wanted.limit,
        wanted.max_bytes,
        NODE,
        stretch.first,
        wanted.match,
    )
    dead = bytearray(max((index + 7) // 8, len(stretch.dead or b"")))
    dead[: len(stretch.dead or b"")] = stretch.dead or b""
    ends, text, _ = found.node or (b"", b"", b"")
    names, start = set(nodes), 0
    for (seq,), (end,) in zip(
        _U64.iter_unpack(found.seqs), _U32.iter_unpack(ends[4:]), strict=True
    ):
        if text[start:end] in names:
            at = seq - stretch.first
            dead[at >> 3] |= 1 << (at & 7)
        start = end
    return dead, index


class NotHot(Exception):
    """A read that may not touch a disk needs one."""


def read_hot(
    handle: Handle,
    after: int,
    epoch: int | None,
    wanted: ReadOptions,
    *,
    is_stream: bool = False,
) -> JsonPage | None:
    """A page that needs no disk, or None when this read might have to wait for one. A stream does
    not wait for routers: their copies wake it."""
    if not is_quick(handle, after, wanted) or (handle.is_behind and not is_stream):
        return None
    try:
        return read_json(handle, after, epoch, wanted, hot_only=True)
    except NotHot:  # sealed since we asked
        return None


def frames_hot(
    handle: Handle, after: int, epoch: int | None, wanted: ReadOptions
) -> FramesPage | None:
    """The same as frames."""
    if not is_quick(handle, after, wanted) or handle.is_behind:
        return None
    try:
        return read_frames(handle, after, epoch, wanted, hot_only=True)
    except NotHot:
        return None


def seek(handle: Handle, ts_ms: int) -> int:
    """The seq after which the records committed at `ts_ms` or later begin."""
    with handle.lock:
        return seek_by_time.seek(handle.topic, ts_ms)


def is_quick(handle: Handle, after: int, wanted: ReadOptions) -> bool:
    """True if this read neither waits for a disk nor scans many records. Expiry is logged, and a
    filter may skip all records."""
    if handle.topic.config.ttl_ms:
        return False
    is_filtered = wanted.match is not None or wanted.nodes
    if is_filtered and not is_quick_scan(handle.topic.head - after):
        return False
    return is_hot(handle, after)


def is_hot(handle: Handle, after: int) -> bool:
    """True if all records past `after` are in memory. Runs are in order and sealed ones come first,
    so one check is enough."""
    with handle.lock:
        spans = handle.topic.spans
        at = bisect.bisect_right(spans, after + 1, key=_first) - 1
        return not spans or not spans[max(at, 0)].run.is_sealed


def is_cold(handle: Handle, after: int) -> bool:
    """True if the first record past `after` is in the cold tier."""
    with handle.lock:
        spans = handle.topic.spans
        at = bisect.bisect_right(spans, after + 1, key=_first) - 1
        run = spans[max(at, 0)].run if spans else None
        return isinstance(run, Segment) and run.is_cold


def prepare_delete(
    handle: Handle, before_seq: int | None, match: TagMatch | None, seqs: Sequence[int]
) -> None:
    """Load the indexes that a delete needs, before it is logged: after that, an index in an
    unreachable cold tier could not be handled. Raises ColdUnavailable."""
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
    builder = PageBuilder(wanted.bits)
    plan = _gather(handle, after, epoch, wanted, builder, hot_only=hot_only)
    return JsonPage(
        _joined(builder.parts),
        builder.count,
        plan.gap,
        builder.at,
        plan.head,
        plan.earliest,
        builder.at >= plan.head,
        plan.epoch,
    )


def read_frames(
    handle: Handle, after: int, epoch: int | None, wanted: ReadOptions, *, hot_only: bool = False
) -> FramesPage:
    """Records past `after` as frames. With `hot_only` as in `read_json`."""
    builder = PageBuilder(show.FRAMES)
    plan = _gather(handle, after, epoch, wanted, builder, hot_only=hot_only)
    parts = builder.parts
    return FramesPage(
        parts[0] if len(parts) == 1 else b"".join(parts),
        builder.count,
        plan.gap,
        builder.at,
        plan.head,
        plan.earliest,
        builder.at >= plan.head,
        plan.epoch,
    )


def read_columns(
    handle: Handle, after: int, epoch: int | None, wanted: ReadOptions, columns: int
) -> ColumnsPage:
    """Records past `after` column by column; `columns` is a sum of bits of `codec.columns`."""
    builder = ColumnsBuilder(columns)
    plan = _gather(handle, after, epoch, wanted, builder)
    return ColumnsPage(
        builder.columns,
        plan.gap,
        builder.at,
        plan.head,
        plan.earliest,
        builder.at >= plan.head,
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


def _slow_object(text: msgspec.Raw) -> dict[str, Any]:
    """Numbers beyond a float become infinite; integers too long for Python's limit, text."""
    return dict(json.loads(bytes(text), parse_int=_any_int))


def _any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def _joined(arrays: list[bytes]) -> bytes:
    """Join several JSON arrays into one. Most pages are one array already and are not copied."""
    if len(arrays) == 1:
        return arrays[0]
    return b"[%b]" % b",".join(array[1:-1] for array in arrays)


def _gather(
    handle: Handle,
    after: int,
    epoch: int | None,
    wanted: ReadOptions,
    builder: PageBuilder,
    *,
    hot_only: bool = False,
) -> ReadPlan:
    """Fill the page, and return the plan with the gap and the head. Skips deleted and filtered
    records, up to the scan budget of one read, so that a selective reader does not need a call for
    each record."""
    budget = ScanBudget(wanted.limit)
    earlier: ReadPlan | None = None
    while True:
        step = budget.next_step()
        with handle.lock:
            nodes = list(wanted.nodes) if handle.topic.config.dedupe_node else []
            plan = read_plan.plan(handle.topic, after=after, epoch=epoch, records_max=step)
        # Looked at here: maintenance may have sealed a run after `is_quick` said that there was
        # none. A block that is sealed from now on stays readable in memory through its stretch.
        if hot_only and any(stretch.run.is_sealed for stretch in plan.stretches):
            raise NotHot
        if plan.gap is not None and builder.count:
            return earlier or plan  # it came up meanwhile, and is for the next read to tell
        earlier = plan
        _walk(builder, plan, wanted, nodes or None)
        if builder.is_full or plan.gap is not None or builder.at >= plan.last:
            return plan
        budget.spend(builder.at - plan.after)
        if budget.is_spent:
            return plan
        after = builder.at


def _walk(
    builder: PageBuilder, plan: ReadPlan, wanted: ReadOptions, nodes: list[bytes] | None
) -> None:
    """Add the records of the plan's stretches."""
    builder.at = plan.after
    for stretch in plan.stretches:
        if builder.count and builder.size >= wanted.max_bytes:
            builder.is_full = True
            return
        try:
            index = builder.add(stretch, wanted, nodes)
        except CorruptFrame:
            if not builder.count:
                raise
            builder.is_full = True  # what came before the damage; the next read meets it
            return
        builder.at = stretch.first + index - 1
        if builder.is_full or index < stretch.stop or builder.count >= wanted.limit:
            builder.is_full = True
            return
    if not plan.is_cut:
        builder.at = max(
            builder.at, plan.last
        )  # nothing lives beyond: skipped, or a gap comes next
