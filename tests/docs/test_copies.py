"""What docs/format says of routers and their copies holds for real files.

As in `test_formats.py` nothing of the package's own codec is used: the copies are put together
from the bytes that a Copies frame points to, as the page says, and must be those that a reader of
the destination gets.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock
from penstock import Record
from tests.docs.test_formats import FRAME, Frame, checksum, frames, open_log, wal_files

APPEND, ROUTER_CREATE, ROUTER_DELETE, BATCH, COPIES = 1, 4, 5, 12, 18
HAS_TAG, HAS_NODE, DURABLE = 1, 2, 4
RECORDS = [
    Record(data={"id": 1}, tag="eu", node="till"),
    Record(data=2, tag="us"),
    Record(data="three", meta={"a": 1}),
    Record(data=None, tag="eu.de", meta=[1]),
]


class Body:
    """The fields of a frame's data, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, layout: str) -> int:
        size = struct.calcsize(layout)
        (value,) = struct.unpack_from(layout, self._data)
        self._data = self._data[size:]
        return int(value)

    def u64(self) -> int:
        return self.number("<Q")

    def lp(self) -> bytes:
        size = self.number("<I")
        value, self._data = self._data[:size], self._data[size:]
        assert len(value) == size
        return value

    def text(self) -> str:
        return self.lp().decode()

    @property
    def is_at_end(self) -> bool:
        return not self._data


def framed(frame: Frame) -> bytes:
    """The bytes of a frame."""
    parts = frame.node + frame.tag + frame.data
    sizes = len(frame.node), len(frame.tag), len(frame.data)
    head = struct.pack(
        FRAME, 42 + sum(sizes), frame.type, frame.flags, frame.topic_id, frame.seq, frame.ts, *sizes
    )
    return head + parts + struct.pack("<Q", checksum(head[4:] + parts))


def seqs_in(taken: list[int]) -> list[int]:
    seqs: list[int] = []
    at = 1
    for skipped, count in zip(taken[::2], taken[1::2], strict=True):
        seqs += range(at + skipped, at + skipped + count)
        at += skipped + count
    return seqs


def marked(body: bytes, mark: dict[str, Any]) -> bytes:
    held = json.loads(body)
    meta = held.get("m", {})
    if not isinstance(meta, dict):
        meta = {"_topics_original_meta": meta}
    text = json.dumps({**meta, "_topics_router": mark}, separators=(",", ":"))
    return b'{"m":%b,"d":%b}' % (
        text.encode(),
        json.dumps(held["d"], separators=(",", ":")).encode(),
    )


def copies(root: Path, logged: Frame) -> list[Frame]:
    """What a Copies frame names, made anew from the files."""
    body = Body(logged.data)
    options, cursor, lost, source_id = body.number("<B"), body.u64(), body.u64(), body.u64()
    router = body.text()
    if body.is_at_end:
        return []
    source, group = body.text(), body.text()
    index, start, end = body.u64(), body.u64(), body.u64()
    seqs = seqs_in(msgspec.msgpack.decode(body.lp()))
    assert body.is_at_end
    assert cursor >= seqs[-1]
    path = wal_files(root)[index]
    assert path.parent == root / "wal" / group
    held: dict[int, Frame] = {}
    for frame in frames(path.read_bytes()):
        if start <= frame.at < end and frame.topic_id == source_id:
            found = copies(root, frame) if frame.type == COPIES else [frame]
            held |= {one.seq: one for one in found if one.type == APPEND}
    made = []
    for number, seq in enumerate(seqs):
        record = held[seq]
        node = record.node if options & 1 else b""
        tag = record.tag if options & 2 else b""
        flags = (HAS_TAG if tag else 0) | (HAS_NODE if node else 0)
        flags |= (DURABLE if options & 0x80 else 0) | ((record.flags >> 4) + 1) << 4
        data = record.data
        if options & 8:
            mark = {
                "idempotency_key": f"router:{router}:{source_id}:{source_id}:{seq}",
                "router": router,
                "source_topic": source,
                "source_topic_id": source_id,
                "source_epoch": source_id,
                "source_seq": seq,
            }
            data = marked(data, mark)
        to = logged.seq + lost + number
        made.append(Frame(0, 0, APPEND, flags, logged.topic_id, to, logged.ts, node, tag, data))
    return made


def logged_in(root: Path) -> list[Frame]:
    return [frame for path in wal_files(root).values() for frame in frames(path.read_bytes())]


def derived(root: Path, topic_id: int) -> bytes:
    found = [f for f in logged_in(root) if f.type == COPIES and f.topic_id == topic_id]
    assert found
    return b"".join(framed(copy) for logged in found for copy in copies(root, logged))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("durability", ["disk", "fsync"])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"filter": "eu*"},
        {"preserve_node": False},
        {"preserve_tag": False},
        {"exactly_once": True},
    ],
    ids=str,
)
def test_copies_are_what_the_page_makes_of_a_copies_frame(
    tmp_path: Path, rules: dict[str, Any], durability: str, shards: int
) -> None:
    with open_log(tmp_path, wal_shards=shards) as log:
        for name in ("orders", "first", "second"):
            log.create(name, durability=durability)
        log.create_router("one", "orders", "first", **rules)
        log.create_router("two", "first", "second", exactly_once=True)
        log.append("orders", RECORDS)
        log.append("orders", RECORDS[:1])
        shown = {name: log.read_frames(name).frames for name in ("first", "second")}
        ids = {name: log.topic(name).id for name in shown}

    assert {name: derived(tmp_path, ids[name]) for name in shown} == shown
    assert [frame.flags >> 4 for frame in frames(shown["second"])] == [2] * len(
        frames(shown["second"])
    )


def test_a_router_is_logged_and_dropped_as_documented(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append("orders", [1, 2])
        log.append("eu", [1])
        log.create_router("r", "orders", "eu", filter="eu*", allow_cycle=True)
        log.drop_router("r")
        source, dest = log.topic("orders").id, log.topic("eu").id

    made, gone = (f for f in logged_in(tmp_path) if f.type in (ROUTER_CREATE, ROUTER_DELETE))

    body = Body(made.data)
    assert [body.text() for _ in range(3)] == ["r", "orders", "eu"]
    assert body.number("<B") == 1 | 2 | 4
    assert (body.number("<B"), body.number("<B"), body.lp()) == (1, 1, b"eu")
    assert [body.u64() for _ in range(3)] == [2, 1, source]
    assert body.is_at_end
    assert made.topic_id == gone.topic_id == dest
    assert Body(gone.data).text() == "r"


def test_copies_with_their_bytes_are_a_batch_that_names_its_router(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create("audit", durability="fsync")
        log.create_router("r", "orders", "audit")  # from a topic of class disk
        log.append("orders", [1, 2, 3])
        shown = log.read_frames("audit").frames
        dest = log.topic("audit").id

    batch, *held = (f for f in logged_in(tmp_path) if f.topic_id == dest and f.type in (1, 12))

    body = Body(batch.data)
    assert (batch.type, batch.seq, batch.tag) == (BATCH, 1, b"")
    assert (body.number("<I"), body.text(), body.u64()) == (3, "r", 3)
    assert body.is_at_end
    assert b"".join(map(framed, held)) == shown
    assert {frame.flags for frame in held} == {DURABLE | 1 << 4}


def test_what_the_source_had_lost_is_a_number_of_seqs(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create("orders", cap_records=2)
        log.create_router("r", "orders", "eu")
        log.append("orders", [1, 2, 3, 4, 5])
        gap = log.read("eu").gap
        source = log.topic("orders").id

    trimmed, copied = (f for f in logged_in(tmp_path) if f.type == COPIES)

    body = Body(trimmed.data)
    assert gap is not None
    assert (gap.first, gap.last, gap.reason) == (1, 3, "source_trim")
    assert (body.number("<B"), body.u64(), body.u64()) == (3 | 1 << 4, 3, 3)
    assert (body.u64(), body.text()) == (source, "r")
    assert body.is_at_end
    assert (trimmed.seq, copied.seq) == (1, 4)


def test_a_snapshot_has_the_routers_of_a_topic_as_documented(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_router("r", "orders", "eu", filter="eu*")
        log.create_router("all", "orders", "eu", preserve_tag=False)
        log.append("orders", [1], tag="eu")
        log.read("eu")
        source = log.topic("orders").id
        log.checkpoint()

    newest = sorted((tmp_path / "meta").iterdir())[-1]
    topics = {one[1]: one for one in msgspec.msgpack.decode(newest.read_bytes()[56:])["topics"]}

    assert len(topics["orders"]) == 14
    assert topics["eu"][14:16] == [[], None]
    assert topics["eu"][16] == [
        ["r", "orders", source, 3, [b"eu", True], 1, 1],
        ["all", "orders", source, 1, None, 1, 1],
    ]


def test_a_log_is_the_same_when_it_is_opened_from_references(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create_router("r", "orders", "eu", exactly_once=True)
        log.append("orders", RECORDS)
        before = log.read_frames("eu").frames

    with penstock.open(tmp_path) as log:
        assert log.read_frames("eu").frames == before
