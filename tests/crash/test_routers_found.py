"""What attacks on the routers have found, each as the shortest story that shows it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock import limits
from penstock.engine.batch_intents import BatchIntents
from penstock.engine.checkpoint import Checkpointer
from penstock.engine.copy_references import CopyReferences
from penstock.engine.engine import Log
from penstock.engine.router_step import RouterSteps
from penstock.storage.wal import files
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.testing.crash import LAND, VANISH, Fate, Pending
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Gap
from tests.support import states


def opened(fs: MemoryFilesystem, shards: int) -> Log:
    return states.open_log(fs, bounds=states.settings(shards=shards))


def started(**classes: str) -> tuple[MemoryFilesystem, Log]:
    """Topics of these classes, each on a shard of its own, and a router from each to the next."""
    fs, names = MemoryFilesystem(), list(classes)
    log = opened(fs, len(names))
    for number, (name, durability) in enumerate(classes.items()):
        registry = log.core.parts.registry
        while files.shard_number(registry.next_id, len(names)) != number:
            registry.next_id += 1
        log.create(name, durability=durability)
    for source, dest in itertools.pairwise(names):
        log.create_router(f"{source}->{dest}", source, dest)
    return fs, log


def shown(log: Log, topic: str) -> list[Any]:
    """Payloads and gaps."""
    found: list[Any] = []
    after = 0
    while True:
        page = log.read(topic, after)
        found += [] if page.gap is None else [page.gap]
        found += [record.data for record in page.records]
        if page.caught_up:
            return found
        after = page.next_seq


def payloads(log: Log, topic: str) -> list[Any]:
    return [one for one in shown(log, topic) if not isinstance(one, Gap)]


def losing_shard(number: int) -> Any:
    """A power cut that takes what was not synced of one shard."""

    def choose(change: Pending) -> Fate:
        return VANISH if f"shard-{number:02d}/wal-" in change.path and change.is_write else LAND

    return choose


# Without any crash.


def test_a_gap_does_not_go_round_a_ring_for_ever() -> None:
    _, log = started(a="fsync", b="fsync")
    log.create("a", durability="fsync", cap_records=2)
    log.create_router("b->a", "b", "a", allow_cycle=True)
    log.append("a", [1, 2, 3, 4, 5])  # three are evicted before they are copied
    log.core.routing.run()
    heads = log.topic("a").head_seq, log.topic("b").head_seq

    log.core.routing.run()

    assert (log.topic("a").head_seq, log.topic("b").head_seq) == heads


def test_a_router_that_is_made_again_during_a_step_copies_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, log = started(a="fsync", b="fsync")
    log.append("a", ["x"])
    page = RouterSteps._draft

    def renew() -> None:
        log.drop_router("a->b")
        log.create_router("a->b", "a", "b")
        log.append("a", ["y"])

    other = threading.Thread(target=renew)

    def meanwhile(self: RouterSteps, *given: Any) -> Any:
        if other.ident is None:
            other.start()
            other.join(0.2)  # it may have to wait for this step
        return page(self, *given)

    monkeypatch.setattr(RouterSteps, "_draft", meanwhile)
    log.read("b")
    other.join()
    log.append("a", ["z"])

    assert payloads(log, "b") == ["x", "y", "z"]


# Restarts.


def test_a_copy_by_way_of_a_ram_only_topic_comes_once() -> None:
    fs, log = started(a="fsync", b="ephemeral", c="fsync")
    log.append("a", ["x"])
    assert payloads(log, "c") == ["x"]
    log.close()

    log = opened(fs, 3)

    assert payloads(log, "c") == ["x"]


def test_a_copy_by_way_of_a_weaker_topic_comes_once() -> None:
    fs, log = started(a="fsync", b="disk", c="fsync")
    log.append("a", ["x"])
    assert payloads(log, "c") == ["x"]

    log = opened(fs.power_cut(losing_shard(1)), 3)

    assert payloads(log, "c") == ["x"]


def test_a_batch_over_several_topics_is_copied_once() -> None:
    fs, log = started(a="disk", b="fsync")
    points: list[MemoryFilesystem] = []

    def look(index: int, kind: str, path: str) -> None:
        if (
            kind == "sync"
            and "shard-00" in path
            and not points
            and log.core.catalogue.get("a").topic.head
        ):
            assert not log.core.catalogue.get("b").topic.head  # its copy waits for this sync
            points.append(fs.copy())

    fs.on_operation = look
    log.append_many([("a", ["x"]), ("z", ["y"])])

    log = opened(points[0].power_cut(losing_shard(0)), 2)

    assert payloads(log, "a") == ["x"]
    assert payloads(log, "b") == ["x"]


def test_a_topic_that_becomes_fsync_keeps_the_copies_it_shows() -> None:
    fs, log = started(a="disk", b="disk")
    log.append("a", ["x"])
    log.read("b")
    log.create("b", durability="fsync")
    assert payloads(log, "b") == ["x"]

    log = opened(fs.power_cut(losing_shard(0)), 2)

    assert payloads(log, "b") == ["x"]


def test_a_topic_that_becomes_fsync_during_a_step_refers_to_nothing_weaker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="disk", b="disk")
    log.append("a", ["x"])
    find, catalogue = CopyReferences.find, log.core.catalogue

    def meanwhile(self: CopyReferences, *given: Any) -> Any:
        step = find(self, *given)
        catalogue.configure(catalogue.get("b"), catalogue.config("b", {"durability": "fsync"}))
        return step

    with monkeypatch.context() as patch:
        patch.setattr(CopyReferences, "find", meanwhile)
        assert payloads(log, "b") == ["x"]

    log = opened(fs.power_cut(losing_shard(0)), 2)

    assert payloads(log, "b") == ["x"]


def test_a_told_gap_is_not_told_again_when_topics_are_rebuilt() -> None:
    fs, log = started(a="fsync", b="fsync")
    log.create("a", durability="fsync", cap_records=1)
    log.append("a", [1, 2, 3])
    log.read("b")
    log.checkpoint(everything=True)
    log.append("b", ["acknowledged"])
    log.close()
    for path in fs.paths():
        if "/meta/snapshot-" in path:
            fs.corrupt(path, 40)

    log = opened(fs, 2)

    assert payloads(log, "b") == [3, "acknowledged"]


def test_a_topic_that_was_not_dropped_keeps_its_routers() -> None:
    fs, log = started(a="fsync", b="fsync")
    points: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: points.append(fs.copy())

    log.drop("a")

    for point in points:
        log = opened(point.kill(), 2)
        assert ("a" in log.core.catalogue.names()) == bool(log.routers())


def test_two_kills_are_no_power_cut() -> None:
    """No router in it: a RAM-only topic is enough."""
    fs, log = started(e="ephemeral")
    log.create("d", durability="disk")
    log.append("e", [1])
    log.append("d", ["x"])
    fs = fs.kill()
    points: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: points.append(fs.copy())

    opened(fs, 1)

    for point in points:
        assert shown(opened(point.kill(), 1), "d") == ["x"]


def test_what_a_damaged_snapshot_had_is_in_the_log() -> None:
    """Nor in this one: the snapshot was ahead of the synced WAL, and is so no more."""
    fs, log = started(d="disk")
    log.append("d", ["kept"])
    log.checkpoint()
    is_done = False

    def meanwhile(index: int, kind: str, path: str) -> None:
        nonlocal is_done
        if kind == "create" and path.endswith(".data.tmp") and not is_done:
            is_done = True
            log.append("d", ["in the snapshot alone"])

    fs.on_operation = meanwhile
    log.checkpoint(everything=True)
    fs.on_operation = None
    fs = fs.power_cut(lambda change: VANISH if "/wal-" in change.path else LAND)
    log = opened(fs, 1)
    assert payloads(log, "d") == ["kept", "in the snapshot alone"]
    fs = fs.kill()
    fs.corrupt(max(path for path in fs.paths() if "/meta/snapshot-" in path), 40)

    log = opened(fs, 1)

    assert payloads(log, "d") == ["kept", "in the snapshot alone"]


def test_seqs_that_only_a_damaged_snapshot_knew_are_told() -> None:
    """Of a RAM-only topic the WAL has nothing but promises."""
    fs, log = started(e="ephemeral")
    log.checkpoint()
    log.append("e", ["x", "y"])
    log.checkpoint()
    fs = fs.kill()
    opened(fs, 1)  # notes what was lost past the newest snapshot
    fs = fs.kill()
    fs.corrupt(max(path for path in fs.paths() if "/meta/snapshot-" in path), 40)

    log = opened(fs, 1)

    gaps = [one for one in shown(log, "e") if isinstance(one, Gap)]
    assert any(gap.first == 1 and gap.last >= 2 for gap in gaps)


# In the middle of things.


def when_logged(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, when the next entry has been logged and waited for, something else happens."""
    wait, is_done = PendingCommit.wait, False

    def meanwhile(self: PendingCommit, timeout_s: float) -> None:
        nonlocal is_done
        wait(self, timeout_s)
        if not is_done:
            is_done = True
            act()

    monkeypatch.setattr(PendingCommit, "wait", meanwhile)


def test_a_snapshot_has_no_copy_without_the_record_it_is_a_copy_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="fsync", b="disk", c="disk")
    capture = Checkpointer._capture

    def meanwhile(self: Checkpointer, handle: Any, room: int) -> Any:
        if handle.topic.name == "c":  # the others have been captured
            log.append("a", ["x"])
            log.read("c")
        return capture(self, handle, room)

    monkeypatch.setattr(Checkpointer, "_capture", meanwhile)
    log.checkpoint()

    log = opened(fs.power_cut(losing_shard(1)), 3)

    assert payloads(log, "c") == ["x"]


def test_a_checkpoint_during_a_step_to_a_ram_only_topic_keeps_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="fsync", b="ephemeral", c="fsync")
    log.append("a", ["x"])
    when_logged(monkeypatch, log.checkpoint)
    assert payloads(log, "c") == ["x"]

    log = opened(fs.kill(), 3)

    assert payloads(log, "c") == ["x"]


def test_a_ram_only_topic_that_becomes_fsync_during_a_step_keeps_what_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="fsync", b="ephemeral")
    log.append("a", ["x"])
    other = threading.Thread(target=lambda: log.create("b", durability="fsync"))

    when_logged(monkeypatch, other.start)
    log.read("b")
    other.join()
    log.append("b", ["y"])
    assert shown(log, "b") == ["x", "y"]

    log = opened(fs.kill(), 2)

    assert shown(log, "b") == ["x", "y"]


def test_a_copy_that_has_to_wait_for_room_in_memory_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="fsync", b="ephemeral")
    log.create("b", durability="ephemeral", cap_records=1, discard="reject")
    log.append("a", ["x"])
    with monkeypatch.context() as patch:
        when_logged(patch, lambda: log.append("b", ["in between"]))
        assert payloads(log, "b") == ["in between"]
    log.delete("b", before_seq=2)
    assert payloads(log, "b") == ["x"]
    assert log.router("a->b").forwarded_total == 1
    log.close()

    log = opened(fs, 2)

    assert log.router("a->b").forwarded_total == 1


def test_a_batch_with_a_ram_only_part_is_copied_once_when_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs, log = started(a="ephemeral", b="fsync")
    sync = BatchIntents.sync
    points: list[MemoryFilesystem] = []

    def meanwhile(self: BatchIntents, handles: Any) -> None:
        assert payloads(log, "b") == ["x"]
        points.append(fs.copy())
        sync(self, handles)

    monkeypatch.setattr(BatchIntents, "sync", meanwhile)
    log.append_many([("a", ["x"]), ("z", ["y"])])

    log = opened(points[0].kill(), 2)

    assert payloads(log, "b") == ["x"]


def test_a_batch_with_a_ram_only_part_is_copied_once_when_the_power_goes() -> None:
    fs, log = started(a="ephemeral", b="fsync", z="fsync")
    log.drop_router("b->z")
    registry = log.core.parts.registry
    while files.shard_number(registry.next_id, 3) != 2:
        registry.next_id += 1  # batches are noted in the shard of z
    log.append_many([("a", ["x"]), ("z", ["y"])])
    assert payloads(log, "b") == ["x"]

    log = opened(fs.power_cut(losing_shard(2)), 3)

    assert payloads(log, "b") == ["x"]


def test_a_batch_that_was_finished_after_a_crash_is_not_finished_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No router in it."""
    fs, log = started(a="ephemeral")
    sync = BatchIntents.sync
    points: list[MemoryFilesystem] = []

    def meanwhile(self: BatchIntents, handles: Any) -> None:
        points.append(fs.copy())
        sync(self, handles)

    with monkeypatch.context() as patch:
        patch.setattr(BatchIntents, "sync", meanwhile)
        log.append_many([("a", ["x"]), ("z", ["y"])])
    fs = points[0].kill()
    assert payloads(opened(fs, 1), "a") == []  # RAM-only: it went with the process

    log = opened(fs.kill(), 1)

    assert payloads(log, "a") == []


def test_a_backlog_of_many_steps_is_brought_without_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock of this log stands still: a wait would never end."""
    _, log = started(a="disk", b="disk")
    monkeypatch.setattr(limits, "ROUTE_RECORDS_MAX", 1)
    log.append("a", [1, 2, 3, 4, 5, 6])

    reader = threading.Thread(target=log.read, args=("b",), daemon=True)
    reader.start()
    reader.join(2)

    assert not reader.is_alive()
