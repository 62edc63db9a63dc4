"""R22: data directories of every released format are read for ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock
from penstock.engine.fsck import check
from penstock.storage.fs import OsFilesystem
from tests.support.golden import HERE, written


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "v1" / "log", tmp_path / "log"))


def test_a_directory_of_format_1_gives_back_what_was_written(directory: Path) -> None:
    with penstock.open(directory) as log:
        orders, clicks = log.read("orders"), log.read("clicks")
        again = log.append("orders", [{"n": 4}], idempotency_key="k-4")

    first = orders.records[0]
    assert (first.data, first.tag, first.node, first.meta) == (
        {"n": 1},
        "eu",
        "till-1",
        {"by": "ann"},
    )
    assert [(record.seq, record.data) for record in orders.records] == [
        (1, {"n": 1}),
        (3, {"n": 3}),
        (4, {"n": 4}),
    ]
    assert orders.gap is None
    assert [record.data for record in clicks.records] == [4, 5, "aé"]
    assert clicks.gap is not None
    assert (clicks.gap.first, clicks.gap.last, clicks.gap.reason) == (1, 3, "cap")
    assert again.first_seq == 5  # its window is long past: the key is forgotten


def test_a_directory_of_format_1_is_clean(directory: Path) -> None:
    report = check(OsFilesystem(), str(directory))

    assert report.problems == []
    assert report.records == 6


def test_format_1_is_still_written_byte_for_byte() -> None:
    held = {
        str(path.relative_to(HERE / "v1" / "log")): path.read_bytes()
        for path in (HERE / "v1" / "log").rglob("*")
        if path.is_file()
    }

    now = {name: data for name, data in written().items() if not name.endswith(".lock")}

    assert sorted(now) == sorted(held)
    for name, data in held.items():
        assert now[name] == data, name
