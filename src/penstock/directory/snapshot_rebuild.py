"""Rebuilds topics from their segments alone, when every snapshot is unreadable.

Segments name their topic. State that only a snapshot has (deletes since the segment was sealed,
names of topics without segments) is lost; no file is removed because of that.
"""

from __future__ import annotations

import re

import msgspec

from penstock.directory.log_identity import DataLayout
from penstock.directory.segments import SegmentShelf
from penstock.entries import FloorMoved, RecordsDeleted
from penstock.storage.fs import Filesystem
from penstock.storage.segments import format as layout_
from penstock.storage.segments.format import STRIDE, IndexView, SegmentFacts
from penstock.topics.bitmap import Bitmap
from penstock.topics.spans import Span
from penstock.topics.topic import Topic
from penstock.types import TopicConfig

_INDEX = re.compile(r"(seg-\d{16}(?:-(\d+))?)\.idx")


def from_segments(fs: Filesystem, layout: DataLayout, shelf: SegmentShelf) -> list[Topic]:
    topics = []
    for name in fs.list(layout.topics):
        if re.fullmatch(r"[0-9A-F]{8,16}", name):
            topic = _topic(fs, layout, shelf, int(name, 16), f"{layout.topics}/{name}")
            if topic is not None:
                topics.append(topic)
    return topics


def _topic(
    fs: Filesystem, layout: DataLayout, shelf: SegmentShelf, topic_id: int, directory: str
) -> Topic | None:
    found: list[tuple[SegmentFacts, IndexView]] = []
    for file in fs.list(directory):
        match = _INDEX.fullmatch(file)
        if match is None:
            continue
        try:
            view, checksum = layout_.decode_index(fs.map(f"{directory}/{file}"))
        except ValueError:
            continue
        if view.topic_id != topic_id or view.log_id != layout.log_id:
            continue
        if not any(fs.exists(f"{directory}/{match[1]}.{kind}") for kind in ("data", "cold")):
            continue  # it was being written when the machine stopped
        tags = f"{directory}/{match[1]}.tags"
        records = view.count - len(_absent(view))
        facts = SegmentFacts(
            view.first,
            view.count,
            records,
            int(match[2] or 0),
            view.data_bytes,
            checksum,
            fs.size(tags) if fs.exists(tags) else 1,  # a wrong size: rebuilt when needed
            view.about.first_ts,
            view.about.last_ts,
        )
        found.append((facts, view))
    return _assemble(shelf, topic_id, found) if found else None


def _assemble(
    shelf: SegmentShelf, topic_id: int, found: list[tuple[SegmentFacts, IndexView]]
) -> Topic:
    """Rewritten segments replace their originals; the rest is sorted."""
    newest = max(found, key=lambda pair: (pair[0].last, pair[0].generation))[1].about
    config = msgspec.json.decode(newest.config, type=TopicConfig)
    topic = Topic(topic_id, newest.topic, config, 0)
    kept: list[SegmentFacts] = []
    for facts, _ in sorted(found, key=lambda pair: (-pair[0].generation, pair[0].first)):
        if all(facts.last < other.first or facts.first > other.last for other in kept):
            kept.append(facts)
    views = {(facts.first, facts.generation): view for facts, view in found}
    for facts in sorted(kept, key=lambda one: one.first):
        run = shelf.segment(topic_id, facts)
        live, size = run.measure(0, facts.count, None)
        span = Span(run, first=facts.first, count=facts.count, live=live, payload_bytes=size)
        absent = _absent(views[facts.first, facts.generation])
        if absent:
            span.dead = Bitmap()
            span.dead.add_all(absent)
        topic.spans.append(span)
        topic.live += live
        topic.bytes += size
        topic.head = facts.last
        topic.last_ts = max(topic.last_ts, facts.last_ts)
    abouts = [view.about for _, view in found]
    delete_floor = max(about.delete_floor for about in abouts)
    if delete_floor:
        topic.apply_delete(RecordsDeleted(topic_id, delete_floor + 1, None, (), topic.head))
    evict = max(about.evict_floor for about in abouts)
    expiry = max(about.expiry_floor for about in abouts)
    topic.apply_floor(FloorMoved(topic_id, evict, 0, expiry))
    return topic


def _absent(view: IndexView) -> list[int]:
    """Seqs that were dead when the segment was written, as entry numbers."""
    rows = view.entries
    return [at for at in range(view.count) if not any(rows[at * STRIDE + 4 : at * STRIDE + 8])]
