"""The byte tables in docs/format hold for real files.

Everything here is read with `struct` and the `xxhash` package as the pages say, and with nothing
of the package's own codec, so that page and code cannot be wrong in the same way.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import xxhash

import penstock
from penstock import Record, Settings
from penstock.clock import SystemClock
from penstock.engine.repair import repair
from penstock.storage.fs import OsFilesystem
from tests.docs.pages import rows

APPEND, TOPIC_CREATE, HEAD_WATERMARK, BATCH, DURABLE_MARK, SCAR = 1, 2, 11, 12, 13, 15
WAL_NAME = re.compile(r"wal-(\d{16})\.log")
SEGMENT_NAME = re.compile(r"seg-(\d{16})(?:-(\d+))?\.(data|idx|tags)")


# The fixed parts, as the tests below read them.
FRAME = "<IBBQQQHHI"
MARK = "<4sHHQQ36s4sQ"
INDEX = "<4sHHQQIIQQ16sQ"
ENTRY = "<IIQIB3s"
TAGS = "<4sHHIIQQ16sQ"
TAG_ROW = "<IIII"
SNAPSHOT = "<4sI16sQQQQ"
SPOOL_FRAME = "<4sIQI"
SPOOL_HEAD = "<4sHHQQ16sQ12sI"
SPOOL_PLACE = "<I"
SPOOL_WATERMARK = "<4sIQqq28sI"


def sizes_of(layout: str) -> list[int]:
    parts = re.findall(r"\d*[a-zA-Z]", layout)
    return [struct.calcsize(f"<{part}") for part in parts]


def tables(name: str, heading: str) -> list[list[tuple[int, int]]]:
    """(offset, size) of the fixed rows of each byte table in a section."""
    found: list[list[tuple[int, int]]] = []
    for offset, size, *_ in rows(name, heading):
        if offset == "0":
            found.append([])
        if offset.isdecimal() and size.isdecimal():
            found[-1].append((int(offset), int(size)))
    return found


@pytest.mark.parametrize(
    ("name", "heading", "layouts"),
    [
        ("frame.md", "## Layout", [FRAME]),
        ("wal.md", "## durable.mark", [MARK]),
        ("segment.md", "## .idx", [INDEX, ENTRY]),
        ("segment.md", "## .tags", [TAGS, TAG_ROW]),
        ("snapshot.md", "## Head", [SNAPSHOT]),
        ("spool.md", "## Frame", [SPOOL_FRAME]),
        ("spool.md", "## Segment", [SPOOL_HEAD, SPOOL_PLACE]),
        ("spool.md", "## .ack-watermark", [SPOOL_WATERMARK]),
    ],
)
def test_a_byte_table_is_the_layout_that_is_read_here(
    name: str, heading: str, layouts: list[str]
) -> None:
    expected = []
    for layout in layouts:
        sizes = sizes_of(layout)
        expected.append([(sum(sizes[:at]), size) for at, size in enumerate(sizes)])

    assert tables(f"docs/format/{name}", heading) == expected


def checksum(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data)


@dataclass(frozen=True)
class Frame:
    at: int
    end: int
    type: int
    flags: int
    topic_id: int
    seq: int
    ts: int
    node: bytes
    tag: bytes
    data: bytes


def frames(data: bytes) -> list[Frame]:
    """docs/format/frame.md: every frame up to the clean end. Fails on a bad one."""
    found, at = [], 0
    while at < len(data) and any(data[at : at + 4]):
        head = struct.unpack_from(FRAME, data, at)
        frame_len, kind, flags, topic_id, seq, ts, node_len, tag_len, data_len = head
        assert frame_len == 42 + node_len + tag_len + data_len
        assert 1 <= kind <= 63
        node_at = at + 38
        tag_at, data_at = node_at + node_len, node_at + node_len + tag_len
        sum_at = data_at + data_len
        assert struct.unpack_from("<Q", data, sum_at)[0] == checksum(data[at + 4 : sum_at])
        node, tag, body = data[node_at:tag_at], data[tag_at:data_at], data[data_at:sum_at]
        end = at + 4 + frame_len
        found.append(Frame(at, end, kind, flags, topic_id, seq, ts, node, tag, body))
        at = end
    assert not any(data[at:]), "the unused rest is zero"
    return found


def open_log(path: Path, **settings: Any) -> penstock.Log:
    chosen = {"background": False, "wal_shards": 1, "wal_file_bytes": 64 << 10, **settings}
    return penstock.open(path, settings=Settings(**chosen))


def wal_files(root: Path) -> dict[int, Path]:
    """By index, of all groups."""
    found = {}
    for path in root.glob("wal/**/*.log"):
        match = WAL_NAME.fullmatch(path.name)
        assert match is not None
        found[int(match[1])] = path
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Mark:
    flags: int
    file: int
    offset: int
    boot_id: bytes


def mark_of(path: Path) -> Mark:
    data = path.read_bytes()
    assert len(data) == 72
    magic, version, flags, file, offset, boot_id, zeros, held = struct.unpack(MARK, data)
    assert (magic, version, zeros) == (b"PSMK", 1, bytes(4))
    assert held == checksum(data[:64])
    return Mark(flags, file, offset, boot_id.rstrip(b"\0"))


# WAL.


def test_a_wal_file_begins_with_a_frame_and_ends_with_zeros(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create("orders", durability="fsync")
        log.append("orders", [{"id": 1}], tag="eu", node="till")
        log.append("orders", [Record(data=2, meta={"a": 1}), b" 3 "], idempotency_key="k")
        (path,) = wal_files(tmp_path).values()
        data = path.read_bytes()

    found = [frame for frame in frames(data) if frame.type != DURABLE_MARK]

    assert len(data) == 64 << 10
    assert path == tmp_path / "wal" / "wal-0000000000000001.log"
    assert [frame.type for frame in found] == [TOPIC_CREATE, APPEND, BATCH, APPEND, APPEND]
    created, first, batch, second, third = found
    (name_len,) = struct.unpack_from("<I", created.data)
    assert created.data[4 : 4 + name_len] == b"orders"
    (config_len,) = struct.unpack_from("<I", created.data, 4 + name_len)
    config = json.loads(created.data[8 + name_len :])
    assert config_len == len(created.data) - 8 - name_len
    assert config["durability"] == "fsync"
    assert (first.node, first.tag, first.flags) == (b"till", b"eu", 1 | 2 | 4)
    assert first.data == b'{"d":{"id":1}}'
    assert (batch.seq, batch.tag, batch.data) == (2, b"k", struct.pack("<I", 2))
    assert [frame.seq for frame in (first, second, third)] == [1, 2, 3]
    assert (second.data, third.data) == (b'{"m":{"a":1},"d":2}', b'{"d": 3 }')


def test_a_file_that_was_closed_in_order_has_no_rest(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append("orders", [1, 2, 3])

    (path,) = wal_files(tmp_path).values()

    assert frames(path.read_bytes())[-1].end == path.stat().st_size


def test_a_new_topic_that_is_not_fsync_reserves_seqs_at_once(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append("clicks", [1])

    (path,) = wal_files(tmp_path).values()
    (reserved,) = (f for f in frames(path.read_bytes()) if f.type == HEAD_WATERMARK)

    assert struct.unpack("<Q", reserved.data) == (1 << 20,)


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_file_begins_by_naming_the_end_of_the_one_before(tmp_path: Path, durability: str) -> None:
    for _ in range(2):  # the second run continues the chain of the first
        with open_log(tmp_path, wal_file_bytes=4096) as log:
            log.create("t", durability=durability)
            for number in range(40):
                log.append("t", [{"n": number, "pad": "x" * 200}])

    held = {index: frames(path.read_bytes()) for index, path in wal_files(tmp_path).items()}

    assert len(held) > 4
    assert list(held) == list(range(1, len(held) + 1))
    for index in list(held)[1:]:
        assert held[index][0].type == DURABLE_MARK
        assert struct.unpack("<QQ", held[index][0].data) == (index - 1, held[index - 1][-1].end)


def test_shards_have_a_directory_each_and_share_one_counter(tmp_path: Path) -> None:
    with open_log(tmp_path, wal_shards=3) as log:
        ids = {name: log.create(name, durability="fsync").id for name in "abcdefgh"}
    found = wal_files(tmp_path)

    assert len(found) == 3
    assert {path.parent.name for path in found.values()} == {"shard-00", "shard-01", "shard-02"}
    for path in found.values():
        shard = int(path.parent.name[-2:])
        for frame in frames(path.read_bytes()):
            if frame.topic_id:
                assert checksum(struct.pack("<Q", frame.topic_id)) % 3 == shard
                ids = {name: held for name, held in ids.items() if held != frame.topic_id}
    assert not ids


def test_the_durable_mark_says_how_far_syncs_went(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create("t", durability="fsync")
        log.append("t", [1])
        (path,) = wal_files(tmp_path).values()
        end = frames(path.read_bytes())[-1].end
        held = mark_of(tmp_path / "wal" / "durable.mark")
        boot_id = OsFilesystem().boot_id().encode()
    closed = mark_of(tmp_path / "wal" / "durable.mark")

    assert held == Mark(0, 1, end, boot_id)
    assert closed == Mark(2, 1, end, boot_id)


def test_a_torn_tail_goes_aside_under_its_name(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    with open_log(tmp_path / "data") as log:
        log.append("clicks", [1])
        log.append("clicks", [{"pad": "x" * 100}])
        shutil.copytree(tmp_path / "data", killed)
    (path,) = wal_files(killed).values()
    data = path.read_bytes()
    last = frames(data)[-1]
    path.write_bytes(data[: last.at + 60] + bytes(len(data) - last.at - 60))

    with open_log(killed) as log:
        assert [record.seq for record in log.read("clicks").records] == [1]
        assert log.stats().torn_tails_cut == 1

    aside = killed / "aside" / f"torn-{1:016d}-{last.at}.bin"
    assert aside.read_bytes() == data[last.at : last.at + 60]
    assert frames(path.read_bytes())[-1].end == last.at == path.stat().st_size


class Keeping(OsFilesystem):
    """Keeps the WAL files that a checkpoint lets go, so that a test can look at them."""

    def unlink(self, path: str) -> None:
        if not path.endswith(".log"):
            super().unlink(path)


def test_a_repair_leaves_a_scar_as_long_as_the_damage(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.create("t", durability="fsync")
        for number in range(3):
            log.append("t", [number])
    (path,) = wal_files(tmp_path).values()
    data = bytearray(path.read_bytes())
    second = [frame for frame in frames(data) if frame.type == APPEND][1]
    data[second.at + 40] ^= 1
    path.write_bytes(data)

    repair(Keeping(), str(tmp_path), SystemClock())

    held = frames(path.read_bytes())
    (scar,) = (frame for frame in held if frame.type == SCAR)
    assert (scar.at, scar.end, scar.topic_id) == (second.at, second.end, 0)
    assert scar.data == bytes(second.end - second.at - 46)
    with open_log(tmp_path) as log:
        page = log.read("t", after=1)
        assert page.gap is not None
        assert (page.gap.first, page.gap.last, page.gap.reason) == (2, 2, "damage")


# Segments and snapshots.


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """A log with a segment of five seqs, of which seq 2 is not there any more."""
    with open_log(tmp_path) as log:
        log.create("orders", durability="fsync", cap_records=100)
        log.append("orders", [{"id": 1}, {"id": 2}], tag="eu")
        log.append("orders", [Record(data={"id": 3}, tag="us", meta=[7], node="n")])
        log.append("orders", [4, 5], idempotency_key="k")
        log.delete("orders", seqs=[2])
        log.create("idle")
        log.compact()
        log.append("orders", [6])
        log.delete("orders", seqs=[4])
        log.checkpoint()
    return tmp_path


def index_of(path: Path) -> tuple[tuple[Any, ...], dict[str, Any], list[tuple[int, ...]], int]:
    """(head, text, entries, index checksum)"""
    data = path.read_bytes()
    head = struct.unpack_from(INDEX, data)
    magic, version, stride, _, _, count, text_bytes, _, entries_sum, _, head_sum = head
    assert (magic, version, stride) == (b"PSIX", 1, 24)
    assert text_bytes % 8 == 0
    text = data[72 : 72 + text_bytes]
    assert head_sum == checksum(data[:64] + text)
    table = data[72 + text_bytes :]
    assert len(table) == 24 * count
    assert entries_sum == checksum(table)
    return (
        head,
        json.loads(text),
        list(struct.iter_unpack(ENTRY, table)),
        head_sum ^ entries_sum,
    )


def test_a_segment_is_three_files_as_documented(compacted: Path) -> None:
    directory = compacted / "topics" / "00000001"
    names = sorted(path.name for path in directory.iterdir())
    identity = json.loads((compacted / "penstock.json").read_text())

    head, about, entries, _ = index_of(directory / "seg-0000000000000001.idx")
    data = (directory / "seg-0000000000000001.data").read_bytes()

    assert names == [f"seg-0000000000000001.{kind}" for kind in ("data", "idx", "tags")]
    assert all(SEGMENT_NAME.fullmatch(name) for name in names)
    assert head[3:6] == (1, 1, 5)
    assert head[7] == len(data)
    assert head[9].hex() == identity["log_id"]
    assert about["topic"] == "orders"
    assert about["config"]["cap_records"] == 100
    held = {frame.seq: frame for frame in frames(data)}
    assert list(held) == [1, 3, 4, 5]
    payloads = {1: 8, 3: 8 + 3, 4: 1, 5: 1}
    for seq, entry in enumerate(entries, 1):
        frame = held.get(seq)
        if frame is None:
            assert entry == (0, 0, 0, 0, 0, bytes(3))
            continue
        size = frame.end - frame.at
        assert entry == (frame.at, size, frame.ts, payloads[seq], frame.flags, bytes(3))


def test_the_tag_sidecar_maps_tags_to_entries(compacted: Path) -> None:
    data = (compacted / "topics" / "00000001" / "seg-0000000000000001.tags").read_bytes()

    head = struct.unpack_from(TAGS, data)
    magic, version, zeros, tags, name_bytes, topic_id, first_seq, log_id, held = head
    identity = json.loads((compacted / "penstock.json").read_text())
    names_at = 56 + 16 * tags
    postings_at = names_at + name_bytes
    found = {}
    for row in range(tags):
        name, size, first, count = struct.unpack_from(TAG_ROW, data, 56 + 16 * row)
        tag = data[names_at + name : names_at + name + size]
        found[tag] = struct.unpack_from(f"<{count}I", data, postings_at + 4 * first)

    assert (magic, version, zeros) == (b"PSTG", 1, 0)
    assert (topic_id, first_seq, log_id.hex()) == (1, 1, identity["log_id"])
    assert held == checksum(data[:48] + data[56:])
    assert name_bytes % 4 == 0
    assert found == {b"eu": (0,), b"us": (2,)}
    assert list(found) == sorted(found)


def test_a_rewritten_segment_has_its_generation_in_its_name(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append("t", [1, 2, 3, 4])
        log.compact()
        log.delete("t", seqs=[1, 2, 4])
        log.compact()
    names = {path.name for path in (tmp_path / "topics" / "00000001").iterdir()}

    assert "seg-0000000000000001-1.data" in names or "seg-0000000000000003-1.data" in names


def test_a_snapshot_has_the_head_and_the_body_as_documented(compacted: Path) -> None:
    newest = sorted((compacted / "meta").iterdir())[-1]
    data = newest.read_bytes()
    identity = json.loads((compacted / "penstock.json").read_text())

    head = struct.unpack_from(SNAPSHOT, data)
    magic, version, log_id, number, body_bytes, body_sum, head_sum = head
    body = data[56:]

    assert (magic, version, log_id.hex()) == (b"PSNP", 1, identity["log_id"])
    assert newest.name == f"snapshot-{number:016d}.bin"
    assert (body_bytes, body_sum) == (len(body), checksum(body))
    assert head_sum == checksum(data[:48])
    held = msgspec.msgpack.decode(body)  # untyped: maps, arrays, numbers, text, binary
    assert list(held) == ["next_topic_id", "positions", "topics"]
    assert held["next_topic_id"] == 3
    assert held["positions"][""][0] == max(wal_files(compacted))
    assert {topic[1] for topic in held["topics"]} == {"idle", "orders"}
    topic = next(one for one in held["topics"] if one[1] == "orders")
    assert len(topic) == 14
    assert topic[0] == 1
    assert topic[2]["durability"] == "fsync"
    assert topic[4] == 6
    assert topic[7:10] == [0, 0, 0]
    assert topic[10][0] == max(wal_files(compacted))
    assert topic[11] == []
    assert [key[:3] for key in topic[12]] == [[b"k", 4, 5]]
    sealed, tail = topic[13]
    _, _, _, index_sum = index_of(compacted / "topics/00000001/seg-0000000000000001.idx")
    first, count, start, live, payload_bytes, dead, facts, tail_frames = sealed
    assert (first, count, start, live, payload_bytes) == (1, 5, 0, 3, 8 + 11 + 1)
    assert zlib.decompress(dead)[0] & 0b01000 == 0b01000
    assert facts[:4] == [1, 5, 4, 0]
    assert facts[5] == index_sum
    assert tail_frames == b""
    assert (tail[0], tail[1], tail[6]) == (6, 1, None)
    assert [(frame.seq, frame.data) for frame in frames(tail[7])] == [(6, b'{"d":6}')]


def test_two_snapshots_are_kept_and_the_older_one_can_be_read(compacted: Path) -> None:
    numbers = sorted(int(path.stem.split("-")[1]) for path in (compacted / "meta").iterdir())

    assert len(numbers) == 2
    assert numbers[1] == numbers[0] + 1


# The directory.


def test_the_identity_has_its_checksum(compacted: Path) -> None:
    text = (compacted / "penstock.json").read_text()
    held = json.loads(text)

    assert text.endswith("}\n")
    assert list(held) == ["format", "format_check", "log_id", "checkpointed", "checksum"]
    assert int(held["format_check"], 16) == checksum(b"penstock format 1")
    assert (held["format"], held["checkpointed"]) == (1, True)
    assert re.fullmatch(r"[0-9a-f]{32}", held["log_id"])
    assert int(held["checksum"], 16) == checksum(f"1 {held['log_id']} True".encode())
    assert re.fullmatch(r"[0-9a-f]{16}", held["checksum"])


def test_a_data_directory_holds_what_the_page_shows(compacted: Path) -> None:
    names = {path.name for path in compacted.iterdir()}

    assert names == {"penstock.json", ".penstock.lock", "wal", "meta", "topics"}
    boot_id, held = (compacted / "wal" / "boot.id").read_bytes().removesuffix(b"\n").split(b" ")
    assert boot_id == OsFilesystem().boot_id().encode()
    assert int(held, 16) == checksum(boot_id)
    assert len(held) == 16
    assert re.fullmatch(r"\d+\n", (compacted / ".penstock.lock").read_text())
    for path in compacted.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
