"""A forked child's copy of a log: every verb says whose log it is, and nothing reaches the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Log, forks
from penstock.errors import Closed
from penstock.storage.fs import OsFilesystem
from tests.support.child import in_child

VERBS: dict[str, Callable[[Log], Any]] = {
    "ack": lambda log: log.ack("t", "n", [1]),
    "append": lambda log: log.append("t", [1]),
    "append_many": lambda log: log.append_many([("t", [1])]),
    "checkpoint": lambda log: log.checkpoint(),
    "claim": lambda log: log.claim("t", "n"),
    "compact": lambda log: log.compact(),
    "create": lambda log: log.create("u"),
    "create_router": lambda log: log.create_router("r", "t", "u"),
    "damage": lambda log: log.damage,
    "delete": lambda log: log.delete("t", before_seq=2),
    "drop": lambda log: log.drop("t"),
    "drop_position": lambda log: log.drop_position("t", "c"),
    "drop_router": lambda log: log.drop_router("r"),
    "drop_table": lambda log: log.drop_table("t"),
    "extend": lambda log: log.extend("t", "n", [1], lease_ms=1000),
    "failed": lambda log: log.failed,
    "features": lambda log: log.features,
    "follow": lambda log: next(iter(log.follow("t"))),
    "move_position": lambda log: log.move_position("t", "c", 1),
    "nack": lambda log: log.nack("t", "n", [1]),
    "position": lambda log: log.position("t", "c"),
    "positions": lambda log: log.positions("t"),
    "projections": lambda log: log.projections,
    "queue_counts": lambda log: log.queue_counts("t"),
    "read": lambda log: log.read("t"),
    "read_columns": lambda log: log.read_columns("t"),
    "read_frames": lambda log: log.read_frames("t"),
    "read_json": lambda log: log.read_json("t"),
    "redrive": lambda log: log.redrive("t"),
    "relocate": lambda log: log.relocate(),
    "router": lambda log: log.router("r"),
    "routers": lambda log: log.routers(),
    "schedules": lambda log: log.schedules("t"),
    "seek": lambda log: log.seek("t", 1),
    "stats": lambda log: log.stats(),
    "submit": lambda log: log.submit("t", [1], lambda answer: None),
    "sync": lambda log: log.sync(),
    "table": lambda log: log.table("t", key="id"),
    "tables": lambda log: log.tables(),
    "topic": lambda log: log.topic("t"),
    "topics": lambda log: log.topics(),
    "upkeep": lambda log: log.upkeep(),
    "watch": lambda log: log.watch(["t"], lambda *told: None),
}
NOT_TRIED = {"close"}  # it does nothing in a child
CORE: dict[str, Callable[[Log], Any]] = {
    "find": lambda log: log.core.catalogue.find("t"),
    "failed": lambda log: log.core.failed,
    "submit_create": lambda log: log.core.catalogue.submit_create("u", {}, lambda *told: None),
    "queues": lambda log: log.core.queues.timing,
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with penstock.open(tmp_path / "log", wal_shards=1) as opened:
        opened.append("t", [1, 2, 3])
        yield opened


def files_of(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def test_every_verb_is_tried_here() -> None:
    public = {name for name in dir(Log) if not name.startswith("_")}

    assert set(VERBS) == public - NOT_TRIED


@pytest.mark.parametrize("verb", [*VERBS.values(), *CORE.values()], ids=[*VERBS, *CORE])
def test_a_verb_in_a_child_names_the_owner_of_the_log(verb: Callable[[Log], Any], log: Log) -> None:
    owner = os.getpid()

    def use() -> None:
        with pytest.raises(Closed, match=f"this log belongs to process {owner}"):
            verb(log)

    assert in_child(use) == ""
    assert log.append("t", [4]).last_seq == 4


def test_a_child_that_closes_the_log_changes_no_file(log: Log, tmp_path: Path) -> None:
    log.sync()
    before = files_of(tmp_path)

    assert in_child(log.close) == ""
    assert files_of(tmp_path) == before
    assert log.append("t", [4]).last_seq == 4


def test_the_lock_stays_with_the_parent(log: Log, tmp_path: Path) -> None:
    def steal() -> None:
        with pytest.raises(penstock.DirectoryInUse):
            penstock.open(tmp_path / "log")

    assert in_child(steal) == ""


def test_a_child_may_open_a_log_of_its_own(log: Log, tmp_path: Path) -> None:
    def write() -> None:
        with penstock.open(tmp_path / "other") as other:
            other.append("u", ["of a child"])

    assert in_child(write) == ""
    with penstock.open(tmp_path / "other") as other:
        assert [record.data for record in other.read("u").records] == ["of a child"]


def test_locks_that_other_threads_held_do_not_stop_a_child(log: Log) -> None:
    handle = log.core.parts.handles["t"]
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with log.core.catalogue.changing, handle.lock:
            is_held.set()
            may_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    following = log.follow("t")

    def use() -> None:
        for verb in (VERBS["append"], VERBS["create"], VERBS["read"], VERBS["drop"]):
            with pytest.raises(Closed):
                verb(log)
        with pytest.raises(Closed):
            next(iter(following))
        log.close()

    said = in_child(use)
    may_go.set()
    holder.join()

    assert said == ""


def test_following_in_a_child_ends_with_the_error(log: Log) -> None:
    following = iter(log.follow("t"))
    next(following)

    def go_on() -> None:
        with pytest.raises(Closed, match="belongs to process"):
            list(following)

    assert in_child(go_on) == ""


# The file system: what no verb could get past.


def test_a_file_of_the_parent_takes_no_write_from_a_child(tmp_path: Path) -> None:
    fs = OsFilesystem()
    path = str(tmp_path / "file")
    file = fs.create(path)
    file.write_at(b"parent", 0)

    def write() -> None:
        acts: list[Callable[[], object]] = [
            lambda: file.write_at(b"child!", 0),
            lambda: file.write_parts_at([b"child!"], 0),
            lambda: file.truncate(0),
        ]
        for act in acts:
            with pytest.raises(OSError, match="Bad file descriptor"):
                act()

    assert in_child(write) == ""
    assert file.read_at(0, 10) == b"parent"
    file.close()


def test_a_child_changes_no_name_in_a_directory(tmp_path: Path) -> None:
    fs = OsFilesystem()
    path = str(tmp_path / "file")
    fs.create(path).close()

    def change() -> None:
        acts: list[Callable[[], object]] = [
            lambda: fs.create(f"{path}-2"),
            lambda: fs.open(path, writable=True),
            lambda: fs.rename(path, f"{path}-2"),
            lambda: fs.unlink(path),
            lambda: fs.make_dirs(str(tmp_path / "dir")),
            lambda: fs.remove_dir(str(tmp_path)),
            lambda: fs.lock(str(tmp_path / "lock")),
        ]
        for act in acts:
            with pytest.raises(Closed, match=f"belongs to process {os.getppid()}"):
                act()
        assert forks.pid() == os.getpid()

    assert in_child(change) == ""
    assert os.listdir(tmp_path) == ["file"]
