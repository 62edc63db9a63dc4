from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.wal import durable_mark
from penstock.storage.wal.durable_mark import MARK_BYTES, MARK_NAME, DurableMark, decode
from penstock.testing import MemoryFilesystem
from penstock.testing.crash import LAND

WAL = "/data/wal"
PATH = f"{WAL}/{MARK_NAME}"
ONE = DurableMark(3, 4096, "7f3a0c1e-0000-4000-8000-00805f9b34fb", is_clean=True)
u64s = st.integers(0, (1 << 64) - 1)
boots = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=36)


@given(noted=st.builds(DurableMark, u64s, u64s, boots, st.booleans(), st.booleans()))
def test_a_mark_comes_back_as_it_was_written(noted: DurableMark) -> None:
    encoded = noted.encode()

    assert len(encoded) == MARK_BYTES
    assert decode(encoded) == noted
    assert decode(encoded + b"rest") == noted


@pytest.mark.parametrize("at", range(MARK_BYTES))
def test_a_damaged_or_cut_mark_claims_nothing(at: int) -> None:
    damaged = bytearray(ONE.encode())
    damaged[at] ^= 1

    assert decode(bytes(damaged)) is None
    assert decode(ONE.encode()[:at]) is None


def wal() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(WAL)
    return fs


def test_it_is_read_from_its_group() -> None:
    fs = wal()
    before = durable_mark.read(fs, WAL)

    file = durable_mark.open_file(fs, WAL)
    file.write_at(ONE.encode(), 0)

    assert before is None
    assert durable_mark.read(fs, WAL) == ONE


def test_a_new_mark_file_is_durable_by_name_and_an_old_one_is_kept() -> None:
    fs = wal()
    durable_mark.open_file(fs, WAL).close()
    states = list(fs.crash_states(20))

    fs.replace(PATH, ONE.encode())
    durable_mark.open_file(fs, WAL).close()

    assert all(state.exists(PATH) for state in states)
    assert durable_mark.read(fs, WAL) == ONE


def test_the_boot_is_noted_for_those_who_come_after_a_kill() -> None:
    fs = wal()
    before = durable_mark.read_boot(fs, WAL)

    durable_mark.note_boot(fs, WAL)

    assert before == ""
    assert durable_mark.read_boot(fs.kill(), WAL) == fs.boot_id()


def test_a_later_boot_takes_the_place_of_the_one_before() -> None:
    fs = wal()
    durable_mark.note_boot(fs, WAL)

    after = fs.power_cut(lambda _: LAND)
    old = durable_mark.read_boot(after, WAL)
    durable_mark.note_boot(after, WAL)

    assert old != after.boot_id() == durable_mark.read_boot(after, WAL)


@pytest.mark.parametrize("name", [durable_mark.MARK_NAME, durable_mark.BOOT_NAME])
@pytest.mark.parametrize(
    "content", [b"", b"PSMK", bytes(MARK_BYTES)], ids=["none", "some", "zeros"]
)
def test_a_note_that_cannot_be_read_is_told_from_none(name: str, content: bytes) -> None:
    fs = wal()
    before = durable_mark.damaged(fs, WAL)

    fs.replace(f"{WAL}/{name}", content)

    assert before == []
    assert durable_mark.damaged(fs, WAL) == [f"{WAL}/{name}"]
    assert (durable_mark.read(fs, WAL), durable_mark.read_boot(fs, WAL)) == (None, "")
