"""The file of a projection: whole or not used at all."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from penstock.projections import checkpoint
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset

PATH = "/data/projections/7/state.bin"
IDENTITY = CheckpointIdentity(bytes(range(16)), "orders", "table", 3, b'{"key":"id"}')
PARTS = [b"first", b"", b"x" * 100]
AT = Offset(5, 123)


def written(fs: MemoryFilesystem | None = None, *parts: bytes) -> MemoryFilesystem:
    fs = fs or MemoryFilesystem()
    fs.make_dirs("/data/projections/7")
    checkpoint.write(fs, PATH, IDENTITY, AT, 99, iter(parts or PARTS))
    return fs


def raw(fs: MemoryFilesystem) -> bytes:
    return bytes(fs.map(PATH))


def test_the_parts_and_the_offset_come_back_as_they_were_written() -> None:
    fs = written()

    stored = checkpoint.load(fs, PATH)

    assert [bytes(part) for part in stored.parts] == PARTS
    assert (stored.offset, stored.created_ms, stored.size) == (AT, 99, fs.size(PATH))
    assert stored.differs(IDENTITY) is None
    assert checkpoint.check(fs, PATH) is None


def test_a_file_without_parts_is_a_file() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs("/data/projections/7")
    size = checkpoint.write(fs, PATH, IDENTITY, AT, 99, [])

    assert (checkpoint.load(fs, PATH).parts, fs.size(PATH)) == ([], size)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"log_id": bytes(16)}, "another log"),
        ({"topic": "others"}, "from topic 'orders', not 'others'"),
        ({"kind": "features"}, "of kind 'table', not 'features'"),
        ({"version": 4}, "version 3, not 4"),
        ({"definition": b"{}"}, "another definition"),
    ],
)
def test_the_state_of_another_projection_is_told_apart(
    change: dict[str, object], reason: str
) -> None:
    stored = checkpoint.load(written(), PATH)

    found = stored.differs(replace(IDENTITY, **change))  # type: ignore[arg-type]

    assert found is not None
    assert reason in found


def test_every_flipped_bit_is_found() -> None:
    fs = written()
    whole = raw(fs)

    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            fs.replace(PATH, bytes(changed))
            assert checkpoint.check(fs, PATH), (at, bit)


def test_every_cut_and_every_addition_is_found() -> None:
    fs = written()
    whole = raw(fs)

    for size in range(len(whole)):
        fs.replace(PATH, whole[:size])
        assert checkpoint.check(fs, PATH), size
    fs.replace(PATH, whole + b"\0")
    assert checkpoint.check(fs, PATH)


def test_sections_that_changed_places_are_found() -> None:
    fs = written(None, b"aaaa", b"bbbb")
    whole = raw(fs)
    begin = len(checkpoint.encode_head(IDENTITY, AT, 99))
    first, second = whole[begin : begin + 20], whole[begin + 20 : begin + 40]

    fs.replace(PATH, whole[:begin] + second + first + whole[begin + 40 :])

    assert checkpoint.check(fs, PATH) == "its sections are not those that were written"


def test_another_format_is_named() -> None:
    fs = written()
    fs.replace(PATH, raw(fs)[:4] + b"\2" + raw(fs)[5:])

    assert checkpoint.check(fs, PATH) == "its format has version 2, not 1"


def test_a_power_cut_at_any_moment_leaves_the_old_file_or_the_new_one() -> None:
    fs = written(None, b"old")
    states: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: states.extend(fs.crash_states(64))
    written(fs, b"new", b"er")
    fs.on_operation = None
    states += fs.crash_states(64)

    contents = {
        b"".join(bytes(part) for part in checkpoint.load(state, PATH).parts) for state in states
    }

    assert contents == {b"old", b"newer"}
    for state in fs.crash_states(64):  # durable when it returned
        assert [bytes(part) for part in checkpoint.load(state, PATH).parts] == [b"new", b"er"]


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename", "sync_dir"])
def test_a_failed_operation_leaves_the_old_file_or_the_new_one(kind: str) -> None:
    fs = written(None, b"old")
    fs.fail(kind, error=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        written(fs, b"new")

    found = [bytes(part) for part in checkpoint.load(fs, PATH).parts]
    assert found == ([b"new"] if kind == "sync_dir" else [b"old"])
    assert kind in ("rename", "sync_dir") or fs.list("/data/projections/7") == ["state.bin"]


def test_the_last_moment_to_refuse_is_before_the_rename() -> None:
    fs = written(None, b"old")

    def refuse() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        checkpoint.write(fs, PATH, IDENTITY, AT, 1, [b"new"], refuse)

    assert [bytes(part) for part in checkpoint.load(fs, PATH).parts] == [b"old"]
    assert fs.list("/data/projections/7") == ["state.bin"]
