"""What projections see of a log, and how they begin and end with it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import penstock
from penstock.codec.columns import DATA
from penstock.engine.projections import TopicTail
from penstock.errors import Closed
from penstock.testing.fs import MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Offset


def test_the_unfinished_save_of_a_killed_process_is_gone_once_tables_are_used() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs) as log:
        log.append("t", [{"id": 1}])
        log.table("t", "id").count()
        folder = log.core.parts.layout.projections
    [state] = [path for path in fs.paths() if path.startswith(folder)]
    fs.create(f"{state}.tmp").close()

    with open_memory_log(fs) as log:
        log.compact()
        assert f"{state}.tmp" in fs.paths()
        assert log.table("t").count() == 1

        assert [path for path in fs.paths() if path.startswith(folder)] == [state]


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync", "ephemeral"])
def test_a_tail_knows_the_head_and_what_survives_a_power_cut(durability: str) -> None:
    with open_memory_log() as log:
        tail = TopicTail(log.core, "t")
        assert (tail.head, tail.synced, tail.read_columns(0, 9, DATA)) == (None, None, None)
        log.create("t", durability=durability)
        log.append("t", [1, 2])
        epoch = log.topic("t").epoch
        assert tail.head == Offset(epoch, 2)

        tail.sync()

        assert tail.synced == Offset(epoch, 0 if durability == "ephemeral" else 2)
        page = tail.read_columns(1, 9, DATA)
        assert page is not None
        assert (page.columns.count, page.caught_up, tail.log_id) == (
            1,
            True,
            log.core.parts.layout.log_id,
        )


@pytest.mark.parametrize("background", [True, False])
def test_a_listener_hears_of_appends_until_it_leaves(tmp_path: Path, background: bool) -> None:
    heard = threading.Event()
    with penstock.open(tmp_path, background=background) as log:
        log.create("t")
        tail = TopicTail(log.core, "t")
        tail.listen(heard.set)
        log.sync()
        heard.clear()
        log.append("t", [1])
        assert heard.wait(30)

        tail.unlisten(heard.set)
        heard.clear()
        log.append("t", [1])
        log.sync()
        assert not heard.is_set()


def test_a_log_without_tables_has_no_thread_and_no_topic_for_them(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        log.append("t", [1])
        assert not [one for one in threading.enumerate() if "projection" in one.name]
    assert not (tmp_path / "projections").exists()


def test_tables_are_folded_from_the_opening_on_and_end_with_the_log(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        log.table("t", key="id")
    with penstock.open(tmp_path) as log:
        log.append("t", [{"id": 1}])
        [held] = log.core.projections.host.all("table")
        while held.runner.applied is None or held.runner.applied.seq < 1:
            threading.Event().wait(0.005)
        table = log.table("t")
    assert not [one for one in threading.enumerate() if "projection" in one.name]
    with pytest.raises((Closed, penstock.PenstockError)):
        table.get(1)
    with pytest.raises(Closed):
        log.table("u", key="id")


def test_definitions_are_one_record_each() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs) as log:
        log.table("a", key="id")
        log.table("b", key="id")
        log.table("a", key="id", bytes_max=9)
        log.drop_table("b")
        assert len(log.core.projections.definitions()) == 1
        assert log.topics() == []

    with open_memory_log(fs) as log:
        assert [(info.name, info.bytes_max) for info in log.tables()] == [("a", 9)]
