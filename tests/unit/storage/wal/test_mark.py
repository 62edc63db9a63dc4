from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.wal import mark
from penstock.storage.wal.mark import MARK_BYTES, MARK_NAME, Mark, decode
from penstock.testing import MemoryFilesystem

WAL = "/data/wal"
PATH = f"{WAL}/{MARK_NAME}"
ONE = Mark(3, 4096, "7f3a0c1e-0000-4000-8000-00805f9b34fb", is_clean=True)
u64s = st.integers(0, (1 << 64) - 1)
boots = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=36)


@given(noted=st.builds(Mark, u64s, u64s, boots, st.booleans(), st.booleans()))
def test_a_mark_comes_back_as_it_was_written(noted: Mark) -> None:
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


def test_it_is_read_from_its_group() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(WAL)
    assert mark.read(fs, WAL) is None
    assert not mark.is_damaged(fs, WAL)

    file = mark.open_file(fs, WAL)
    file.write_at(ONE.encode(), 0)

    assert mark.read(fs, WAL) == ONE
    assert not mark.is_damaged(fs, WAL)


@pytest.mark.parametrize("content", [b"", b"PSMK", bytes(MARK_BYTES)])
def test_an_unreadable_mark_is_told_from_none(content: bytes) -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(WAL)
    fs.replace(PATH, content)

    assert mark.read(fs, WAL) is None
    assert mark.is_damaged(fs, WAL)


def test_a_new_mark_file_is_durable_by_name_and_an_old_one_is_kept() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(WAL)
    mark.open_file(fs, WAL).close()

    assert all(state.exists(PATH) for state in fs.crash_states(20))

    fs.replace(PATH, ONE.encode())
    mark.open_file(fs, WAL).close()
    assert mark.read(fs, WAL) == ONE
