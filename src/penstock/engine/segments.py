"""Which segment files a log has, and how a tail becomes one."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

import msgspec

from penstock.engine.block import Block
from penstock.limits import MAPPED_FILES_MAX
from penstock.storage.fs import Buffer, Filesystem
from penstock.storage.segments import writer
from penstock.storage.segments.format import STRIDE, About, SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.topics.index import Topic
from penstock.topics.spans import Span

_FILE = re.compile(r"(seg-\d{16}(?:-\d+)?)\.(?:data|idx|tags)(?:\.tmp)?")


class SegmentShelf:
    """The segment files under `<data>/topics`. Used by upkeep alone, but for `segment`."""

    def __init__(self, fs: Filesystem, topics_dir: str, log_id: bytes) -> None:
        self._fs = fs
        self._topics_dir = topics_dir
        self._log_id = log_id
        self.maps = MapCache(MAPPED_FILES_MAX)

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


@dataclass(frozen=True, slots=True)
class Piece:
    """A span as it was at one moment: what is deleted or cut meanwhile is carried over later."""

    run: Block | Segment
    first: int
    start: int
    count: int
    dead: bytearray | None

    @staticmethod
    def of(span: Span) -> Piece:
        """Call with the topic's lock held."""
        run = span.run
        if not isinstance(run, (Block, Segment)):
            raise AssertionError("only blocks and segments can be sealed")  # noqa: TRY004 - a bug
        dead = None if span.dead is None else bytearray(span.dead.bits)
        return Piece(run, span.first, span.start, span.count, dead)

    @property
    def last(self) -> int:
        return self.first + self.count - 1


def draft_of(topic: Topic, pieces: list[Piece]) -> writer.Draft:
    """The bytes of one segment from neighbouring pieces."""
    first = pieces[0].first + pieces[0].start
    data: list[Buffer] = []
    entries: list[bytes] = []
    tags: dict[bytes, bytearray] = {}
    size = 0
    for piece in pieces:
        start, count, dead = piece.start, piece.count, piece.dead
        frames, rows = piece.run.copy_live(start, count, dead, size)
        piece.run.group_tags(start, count, dead, piece.first + start - first, tags)
        data.append(frames)
        entries.append(rows)
        size += len(frames)
    last = pieces[-1].last
    head = pieces[0].run
    about = About(
        topic.name,
        topic.id,
        msgspec.Raw(msgspec.json.encode(topic.config)),
        topic.evict_floor,
        topic.expiry_floor,
        topic.delete_floor,
        head.first_ts if isinstance(head, Block) else head.facts.first_ts,
        max(piece.run.last_ts for piece in pieces),
    )
    sealed = [piece.run for piece in pieces if isinstance(piece.run, Segment)]
    generation = max((segment.facts.generation + 1 for segment in sealed), default=0)
    rows_joined = b"".join(entries)
    if len(rows_joined) != (last - first + 1) * STRIDE:
        raise AssertionError("a segment must hold one entry for every seq it spans")
    return writer.Draft(
        topic.id, first, last - first + 1, generation, data, rows_joined, tags, about
    )
