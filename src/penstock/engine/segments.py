"""Which segment files a log has, and how a tail becomes one."""

from __future__ import annotations

import contextlib
import re

import msgspec

from penstock.engine.block import Block
from penstock.storage.fs import Buffer, Filesystem
from penstock.storage.segments import writer
from penstock.storage.segments.format import STRIDE, About, SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.topics.bitmap import Bitmap
from penstock.topics.index import Topic
from penstock.topics.spans import Span

_FILE = re.compile(r"(seg-\d{16}(?:-\d+)?)\.(?:data|idx|tags)(?:\.tmp)?")
_MAPS_MAX = 3 * 1024


class SegmentShelf:
    """The segment files under `<data>/topics`. Used by upkeep alone, but for `segment`."""

    def __init__(self, fs: Filesystem, topics_dir: str, log_id: bytes) -> None:
        self._fs = fs
        self._topics_dir = topics_dir
        self._log_id = log_id
        self.maps = MapCache(_MAPS_MAX)

    def directory(self, topic_id: int) -> str:
        return f"{self._topics_dir}/{topic_id:08X}"

    def segment(self, topic_id: int, facts: SegmentFacts) -> Segment:
        return Segment(self._fs, self.maps, self.directory(topic_id), topic_id, self._log_id, facts)

    def write(self, topic_id: int, draft: writer.Draft) -> Segment:
        """Durable when this returns."""
        directory = self.directory(topic_id)
        self._fs.make_dirs(directory)
        facts = writer.write(self._fs, directory, self._log_id, draft)
        self._fs.sync_dir(directory)
        stem = f"{directory}/{facts.stem}."
        self.maps.forget(stem)
        return self.segment(topic_id, facts)

    def remove_unnamed(self, named: dict[int, set[str]]) -> int:
        """Remove every segment file whose stem is not in `named`; returns how many files."""
        removed = 0
        for name in self._fs.list(self._topics_dir):
            if not re.fullmatch(r"[0-9A-F]{8,16}", name):
                continue
            directory = f"{self._topics_dir}/{name}"
            keep = named.get(int(name, 16), set())
            removed += self._remove(directory, keep)
            if not keep and not self._fs.list(directory):
                with contextlib.suppress(OSError):
                    self._fs.remove_dir(directory)
        return removed

    def _remove(self, directory: str, keep: set[str]) -> int:
        removed = 0
        for file in self._fs.list(directory):
            match = _FILE.fullmatch(file)
            if match and (match[1] not in keep or file.endswith(".tmp")):
                self.maps.forget(f"{directory}/{file}")
                with contextlib.suppress(FileNotFoundError):
                    self._fs.unlink(f"{directory}/{file}")
                removed += 1
        if removed:
            self._fs.sync_dir(directory)
        return removed


def draft_of(topic: Topic, spans: list[Span], dead: list[Bitmap | None]) -> writer.Draft:
    """The bytes of one segment from neighbouring spans. `dead` are frozen copies of theirs."""
    first = spans[0].first + spans[0].start
    data: list[Buffer] = []
    entries: list[bytes] = []
    tags: dict[bytes, bytearray] = {}
    size = 0
    for span, gone in zip(spans, dead, strict=True):
        run = span.run
        if not isinstance(run, (Block, Segment)):
            raise AssertionError("only blocks and segments can be sealed")  # noqa: TRY004 - a bug
        bits = None if gone is None else gone.bits
        frames, rows = run.copy_live(span.start, span.count, bits, size)
        run.group_tags(span.start, span.count, bits, span.first + span.start - first, tags)
        data.append(frames)
        entries.append(rows)
        size += len(frames)
    last = spans[-1].last
    about = About(
        topic.name,
        topic.id,
        msgspec.Raw(msgspec.json.encode(topic.config)),
        topic.evict_floor,
        topic.expiry_floor,
        topic.delete_floor,
        _first_ts(spans[0]),
        max(span.run.last_ts for span in spans),
    )
    sealed = [span.run for span in spans if isinstance(span.run, Segment)]
    generation = max((segment.facts.generation + 1 for segment in sealed), default=0)
    rows_joined = b"".join(entries)
    if len(rows_joined) != (last - first + 1) * STRIDE:
        raise AssertionError("a segment must hold one entry for every seq it spans")
    return writer.Draft(
        topic.id, first, last - first + 1, generation, data, rows_joined, tags, about
    )


def _first_ts(span: Span) -> int:
    run = span.run
    if isinstance(run, Block):
        return run.first_ts
    return run.facts.first_ts if isinstance(run, Segment) else 0
