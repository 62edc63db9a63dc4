"""The segment files of a log, and the writing of new ones."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import msgspec

from penstock.directory.block import Block
from penstock.directory.log_identity import DataLayout
from penstock.errors import ColdUnavailable
from penstock.limits import MAPPED_FILES_MAX
from penstock.storage.fs import Buffer, Filesystem
from penstock.storage.segments import writer
from penstock.storage.segments.format import STRIDE, About, SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers import cold as colds
from penstock.storage.tiers.cold import Cold
from penstock.topics.spans import Run, Span
from penstock.topics.topic import Topic

_STUB = ".cold"
_FILE = re.compile(r"(seg-\d{16}(?:-\d+)?)\.(?:data|idx|tags|cold(?=\.tmp))(?:\.tmp)?")


class SegmentShelf:
    """The segment files under `<data>/topics`. Only maintenance uses it, except for `segment`."""

    def __init__(
        self, fs: Filesystem, topics_dir: str, log_id: bytes, cold: Cold | None = None
    ) -> None:
        self._fs = fs
        self._topics_dir = topics_dir
        self._log_id = log_id
        self.cold = cold
        self._listed: dict[int, set[str]] = {}  # files of a topic as they were when it opened
        self.maps = MapCache(MAPPED_FILES_MAX)

    def directory(self, topic_id: int) -> str:
        return f"{self._topics_dir}/{topic_id:08X}"

    def segment(self, topic_id: int, facts: SegmentFacts) -> Segment:
        """A segment that a snapshot names."""
        segment = self._segment(topic_id, facts)
        if self.cold is not None:
            segment.is_cold = self._went(topic_id, facts.stem)
        return segment

    def write(self, topic_id: int, draft: writer.SegmentDraft) -> Segment:
        """Durable when this returns."""
        directory = self.directory(topic_id)
        self._fs.make_dirs(directory)
        facts = writer.write(self._fs, directory, self._log_id, draft)
        self._fs.sync_dir(directory)
        stem = f"{directory}/{facts.stem}."
        self.maps.forget(stem)
        return self._segment(topic_id, facts)

    def stubs(self) -> Iterator[tuple[int, str]]:
        """Every segment that is in the cold tier or was on its way there: (topic, stem)."""
        for topic_id, directory in self._directories():
            for file in self._fs.list(directory):
                if file.endswith(_STUB):
                    yield topic_id, file.removesuffix(_STUB)

    def forget_listing(self) -> None:
        """The log is open: drop the directory listing that the opening used."""
        self._listed.clear()

    def remove_unnamed(self, named: dict[int, set[str]]) -> int:
        """Remove every segment file whose stem is not in `named`; returns how many files."""
        removed = 0
        for topic_id, directory in self._directories():
            keep = named.get(topic_id, set())
            removed += self._remove(directory, keep)
            if not keep and not self._fs.list(directory):
                with contextlib.suppress(OSError):
                    self._fs.remove_dir(directory)
        return removed

    def _segment(self, topic_id: int, facts: SegmentFacts) -> Segment:
        directory = self.directory(topic_id)
        return Segment(self._fs, self.maps, directory, topic_id, self._log_id, facts, self.cold)

    def _directories(self) -> Iterator[tuple[int, str]]:
        for name in self._fs.list(self._topics_dir):
            if re.fullmatch(r"[0-9A-F]{8,16}", name):
                yield int(name, 16), f"{self._topics_dir}/{name}"

    def _went(self, topic_id: int, stem: str) -> bool:
        """True if its data is in the cold tier only."""
        files = self._listed.get(topic_id)
        if files is None:
            files = self._listed[topic_id] = set(self._fs.list(self.directory(topic_id)))
        return f"{stem}.data" not in files and f"{stem}{_STUB}" in files

    def _remove(self, directory: str, keep: set[str]) -> int:
        removed = 0
        for file in self._fs.list(directory):
            match = _FILE.fullmatch(file)
            is_ours = match is not None and not file.endswith(".cold.tmp")  # that is the mover's
            if match and (match[1] not in keep or (is_ours and file.endswith(".tmp"))):
                self.maps.forget(f"{directory}/{file}")
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(f"{directory}/{file}")
                removed += 1
        if removed:
            self._fs.sync_dir(directory)
        return removed


def shelf_of(fs: Filesystem, layout: DataLayout) -> SegmentShelf:
    """The segments of a data directory that is only read, in both tiers."""
    try:
        where = colds.remembered(fs, layout.root).cold
    except ColdUnavailable:
        where = ""  # whoever needs it is told
    cold = Cold(colds.tier_at(where, fs), layout.log_id) if where else None
    return SegmentShelf(fs, layout.topics, layout.log_id, cold)


def draft_of(topic: Topic, spans: list[Span]) -> writer.SegmentDraft:
    """The bytes of one segment from adjacent spans, which must not change meanwhile."""
    runs = [_placed(span.run) for span in spans]
    first = spans[0].first + spans[0].start
    data: list[Buffer] = []
    entries: list[bytes] = []
    tags: dict[bytes, bytearray] = {}
    size = 0
    for span, run in zip(spans, runs, strict=True):
        start, count, dead = span.start, span.count, span.bits
        frames, rows = run.copy_live(start, count, dead, size)
        run.group_tags(start, count, dead, span.first + start - first, tags)
        data.append(frames)
        entries.append(rows)
        size += len(frames)
    last = spans[-1].last
    head = runs[0]
    about = About(
        topic.name,
        topic.id,
        msgspec.Raw(msgspec.json.encode(topic.config)),
        topic.evict_floor,
        topic.expiry_floor,
        topic.delete_floor,
        head.first_ts if isinstance(head, Block) else head.facts.first_ts,
        max(run.last_ts for run in runs),
    )
    sealed = [run for run in runs if isinstance(run, Segment)]
    generation = max((segment.facts.generation + 1 for segment in sealed), default=0)
    rows_joined = b"".join(entries)
    if len(rows_joined) != (last - first + 1) * STRIDE:
        raise AssertionError("a segment must hold one entry for every seq it spans")
    return writer.SegmentDraft(
        topic.id, first, last - first + 1, generation, data, rows_joined, tags, about
    )


def _placed(run: Run) -> Block | Segment:
    if not isinstance(run, (Block, Segment)):
        raise AssertionError("only blocks and segments can be sealed")  # noqa: TRY004 - a bug
    return run
