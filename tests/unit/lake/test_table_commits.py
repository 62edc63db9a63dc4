from __future__ import annotations

import pytest

from penstock.errors import StorageError
from penstock.lake.manifest import DataFile, Manifest
from penstock.lake.table_commits import Table, replaced
from penstock.testing import MemoryFilesystem

ROOT = "/lake/bronze"


def made(version: int, *paths: str) -> Manifest:
    files = [DataFile("records", path, 1, 1, "") for path in paths]
    return Manifest(table="bronze", version=version, act="ingest", made_ms=0, files=files)


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(f"{ROOT}/records/topic=a/day=d")
    return fs


def put(fs: MemoryFilesystem, path: str) -> None:
    fs.replace(f"{ROOT}/{path}", b"x")


def test_a_table_begins_with_nothing(fs: MemoryFilesystem) -> None:
    assert Table(fs, ROOT, "bronze").current() is None


def test_the_newest_commit_is_the_table(fs: MemoryFilesystem) -> None:
    table = Table(fs, ROOT, "bronze")

    table.commit(made(1, "a"))
    table.commit(made(2, "a", "b"))

    assert table.current() == made(2, "a", "b")
    assert table.read(1) == made(1, "a")


def test_a_commit_is_never_overwritten(fs: MemoryFilesystem) -> None:
    table = Table(fs, ROOT, "bronze")
    table.commit(made(1, "mine"))

    with pytest.raises(StorageError, match="another process has committed this version"):
        table.commit(made(1, "other"))
    table.tidy()

    assert table.current() == made(1, "mine")


def test_two_commits_at_a_time_are_one_too_many(fs: MemoryFilesystem) -> None:
    table = Table(fs, ROOT, "bronze")
    table.commit(made(1))
    fs.replace(f"{ROOT}/_manifests/{2:020d}.json.tmp", b"")

    with pytest.raises(StorageError, match="another process is committing"):
        table.commit(made(2))


def test_a_power_cut_at_any_moment_leaves_the_old_table_or_the_new(fs: MemoryFilesystem) -> None:
    Table(fs, ROOT, "bronze").commit(made(1, "a"))
    found: list[Manifest | None] = []
    start = fs.operations

    for step in range(20):
        trial = fs.copy()
        trial.on_operation = lambda index, kind, path, trial=trial, stop=start + step: (
            found.extend(Table(state, ROOT, "bronze").current() for state in trial.crash_states(50))
            if index == stop
            else None
        )
        Table(trial, ROOT, "bronze").commit(made(2, "a", "b"))
        found.extend(Table(state, ROOT, "bronze").current() for state in trial.crash_states(50))

    assert all(one in (made(1, "a"), made(2, "a", "b")) for one in found)
    assert {one.version for one in found if one} == {1, 2}


def test_a_manifest_of_another_table_is_refused(fs: MemoryFilesystem) -> None:
    Table(fs, ROOT, "bronze").commit(made(1))

    with pytest.raises(StorageError, match="another table"):
        Table(fs, ROOT, "silver").current()


def test_sweeping_removes_what_no_kept_commit_names(fs: MemoryFilesystem) -> None:
    table = Table(fs, ROOT, "bronze")
    here = "records/topic=a/day=d"
    for name in ("old", "both", "new", "never"):
        put(fs, f"{here}/{name}.parquet")
    table.commit(made(1, f"{here}/old.parquet"))
    table.commit(made(2, f"{here}/both.parquet"))
    table.commit(made(3, f"{here}/both.parquet", f"{here}/new.parquet"))

    gone = table.sweep(2)

    assert gone == 2
    assert table.versions() == [2, 3]
    assert fs.list(f"{ROOT}/{here}") == ["both.parquet", "new.parquet"]
    assert table.sweep(2) == 0


def test_a_commit_that_did_not_come_leaves_nothing_behind(fs: MemoryFilesystem) -> None:
    table = Table(fs, ROOT, "bronze")
    table.commit(made(1))
    fs.replace(f"{ROOT}/_manifests/{2:020d}.json.tmp", b"half")

    table.tidy()
    table.commit(made(2))

    assert table.versions() == [1, 2]


def test_files_are_replaced_in_an_order_of_their_own() -> None:
    a, b, c = (DataFile("r", name, 1, 1, "", topic="t", first=n) for n, name in enumerate("abc"))

    assert replaced([a, b], [a], [c]) == replaced([b, a], [a], [c]) == [b, c]
