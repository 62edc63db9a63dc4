"""What a push has promised when it is answered: crashes, classes of topics, shared syncs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock.engine.engine import Log
from penstock.engine.feature_log import LogOfFeatures
from penstock.engine.queued_appends import QueuedAppend
from penstock.errors import InvalidArgument, LogFailed, Overloaded, TopicFull
from penstock.feature_types import Pushed
from penstock.testing.fs import MemoryFile, MemoryFilesystem
from tests.support import states
from tests.support.serving import eventually

PAY: dict[str, Any] = {
    "name": "Pay",
    "fields": {"id": "str", "card": "str"},
    "dedupe": {"field": "id", "window": "1d"},
}
CARDS: dict[str, Any] = {
    "name": "Cards",
    "from": "Pay",
    "key": ["card"],
    "features": {"n": {"op": "count"}},
}


def pay(name: str) -> dict[str, Any]:
    return {"id": name, "card": "c"}


class World:
    """A log in memory without threads: nothing is synced by the way."""

    def __init__(self) -> None:
        self.fs = MemoryFilesystem()
        self.log: Log = states.open_log(self.fs)

    def register(self, **event: Any) -> None:
        self.log.features.register({"events": [PAY | event], "tables": [CARDS]})
        self.log.sync()

    @property
    def syncs(self) -> int:
        return self.fs.counts["sync"]

    def fewest_after_a_crash(self) -> int:
        """The payments that every crash leaves."""
        found: list[int] = []
        for state in self.fs.crash_states(32):
            with states.open_log(state) as log:
                found.append(log.features.get("Cards", "c").get("n", 0))
        return min(found)


@pytest.fixture
def world() -> Iterator[World]:
    here = World()
    yield here
    here.log.close()


# Duplicates.


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_a_duplicate_is_acknowledged_after_the_sync_of_its_first_event(
    world: World, durability: str
) -> None:
    world.log.create("Pay", durability=durability)
    world.register()

    world.log.features.push("Pay", pay("1"))
    pushed = world.log.features.push("Pay", pay("1"), sync="per_event")

    assert (pushed.count, pushed.deduped, pushed.first_seq) == (0, 1, 1)
    assert world.log.features.table("Cards").watermarks.synced == 1
    assert world.fewest_after_a_crash() == 1


def test_a_duplicate_keeps_the_promise_of_its_event_type_in_a_topic_of_a_weaker_class(
    world: World,
) -> None:
    world.register(sync="per_event")
    world.log.create("Pay", durability="disk")
    for name in ("1", "2"):
        world.log.append("Pay", [pay(name)])  # with the promise of the topic alone

    assert world.log.features.push("Pay", pay("2")).deduped == 1

    assert world.fewest_after_a_crash() == 2


def test_a_batch_with_new_and_known_events_is_synced_with_both(world: World) -> None:
    world.register()

    world.log.features.push("Pay", [pay("1"), pay("2")])
    pushed = world.log.features.push("Pay", [pay("2"), pay("3"), pay("3")], sync="per_event")

    assert (pushed.count, pushed.deduped) == (1, 2)
    assert world.fewest_after_a_crash() == 3


def test_a_copy_that_a_router_made_is_synced_with_its_source_before_its_duplicate_is_answered(
    world: World,
) -> None:
    world.log.close()
    world.log = states.open_log(world.fs, bounds=states.settings(shards=4))
    world.register()
    catalogue = world.log.core.catalogue
    names = (f"from{number}" for number in range(100))
    source = next(name for name in names if _is_elsewhere(world.log, name))
    world.log.create_router("r", source, "Pay")
    world.log.sync()
    world.log.append(source, [pay("1"), pay("2")])
    assert world.log.features.get("Cards", "c") == {"n": 2}
    assert catalogue.get("Pay").has_copies

    assert world.log.features.push("Pay", pay("1"), sync="per_event").deduped == 1

    assert world.fewest_after_a_crash() == 2


def _is_elsewhere(log: Log, source: str) -> bool:
    """Create a topic: is it in another shard than the payments?"""
    log.create(source)
    catalogue = log.core.catalogue
    return catalogue.get(source).shard_group != catalogue.get("Pay").shard_group


def test_a_duplicate_of_a_synced_event_needs_no_sync(world: World) -> None:
    world.register()
    world.log.features.push("Pay", pay("1"), sync="per_event")
    world.log.features.push("Pay", pay("2"))
    before = world.syncs

    assert world.log.features.push("Pay", pay("1"), sync="per_event").deduped == 1

    assert world.syncs == before
    assert world.log.features.push("Pay", pay("2"), sync="per_event").deduped == 1
    assert world.syncs > before


def test_a_batch_of_duplicates_has_one_sync(world: World) -> None:
    world.register()
    world.log.features.push("Pay", [pay(str(n)) for n in range(50)])
    before = world.log.stats().wal_syncs_total

    world.log.features.push("Pay", [pay(str(n)) for n in range(50)], sync="per_event")

    assert world.log.stats().wal_syncs_total == before + 1


# Pushes at the same time.


class SlowDisk:
    """A log whose next sync lasts until it is ended, and pushes on threads of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **event: Any) -> None:
        self.fs = MemoryFilesystem()
        self.log = penstock.open("/data", fs=self.fs, wal_shards=1, sync_tick_ms=60_000)
        self.log.features.register({"events": [PAY | event], "tables": [CARDS]})
        self.log.features.push("Pay", pay("first"), sync="per_event")  # seqs are reserved
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.is_armed = False
        self.answers: dict[str, Pushed | Exception] = {}
        self._threads: list[threading.Thread] = []
        sync = MemoryFile.sync

        def slow(file: MemoryFile) -> None:
            if self.is_armed:
                self.is_armed = False
                self.begun.set()
                assert self.ended.wait(60.0)
            sync(file)

        monkeypatch.setattr(MemoryFile, "sync", slow)

    def push(self, name: str, *ids: str) -> None:
        """Push payments with these ids as `name`."""

        def run() -> None:
            try:
                pushes = [pay(one) for one in ids]
                self.answers[name] = self.log.features.push("Pay", pushes, sync="per_event")
            except Exception as error:  # noqa: BLE001 - it is the answer
                self.answers[name] = error

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def hold(self) -> None:
        """Begin a sync, with a push of `held`."""
        self.is_armed = True
        self.push("held", "held")
        assert self.begun.wait(60.0)

    def end(self) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join(60.0)

    def close(self) -> None:
        self.end()
        self.log.close()

    @property
    def ids_under_way(self) -> int:
        under_way = self.log.core.features.store.pusher("Pay")._under_way
        with under_way.turn:
            return len(under_way._places)

    def answered(self, name: str) -> tuple[int, int, int]:
        """New events, known events and the first seq."""
        found = self.answers[name]
        assert isinstance(found, Pushed), found
        return found.count, found.deduped, found.first_seq


MakeDisk = Callable[..., SlowDisk]


@pytest.fixture
def make_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDisk]:
    made: list[SlowDisk] = []

    def make(**event: Any) -> SlowDisk:
        made.append(SlowDisk(monkeypatch, **event))
        return made[0]

    yield make
    for disk in made:
        disk.close()


def test_pushes_that_look_for_ids_share_a_sync(make_disk: MakeDisk) -> None:
    disk = make_disk(sync="per_event")
    disk.hold()
    before = disk.log.stats().wal_syncs_total

    for number in range(20):
        disk.push(str(number), str(number))
    eventually(lambda: disk.ids_under_way == 21, "all of them wait for the disk")
    disk.end()

    assert {disk.answered(str(number))[:2] for number in range(20)} == {(1, 0)}
    assert disk.log.stats().wal_syncs_total <= before + 3  # the one that was held is among them
    assert disk.log.features.get("Cards", "c") == {"n": 22}


@pytest.mark.parametrize("sync", ["periodic", "per_event"])
def test_a_duplicate_of_an_event_that_waits_for_its_sync_waits_too(
    make_disk: MakeDisk, sync: str
) -> None:
    disk = make_disk(sync=sync)
    disk.hold()

    disk.push("again", "held")
    disk.push("both", "held", "new")
    eventually(lambda: disk.log.core.parts.shards[0]._sync_lock.locked(), "a sync under way")
    assert not disk.answers.keys() & {"again", "both"}
    disk.end()

    assert disk.answered("held") == (1, 0, 2)
    assert disk.answered("again") == (0, 1, 2)
    assert disk.answered("both") == (1, 1, 3)
    assert disk.log.features.table("Cards").watermarks.synced == 3


def test_a_sync_that_fails_fails_the_duplicates_that_wait_for_it(make_disk: MakeDisk) -> None:
    disk = make_disk(sync="per_event")
    disk.hold()
    disk.push("again", "held")
    disk.fs.fail("sync", persistent=True)
    disk.end()

    assert [type(disk.answers[name]) for name in ("held", "again")] == [LogFailed] * 2


def test_a_push_that_is_refused_leaves_no_id_behind(world: World) -> None:
    world.log.create("Pay", cap_records=2, discard="reject")
    world.register()
    world.log.features.push("Pay", [pay("1"), pay("2")])
    with pytest.raises(TopicFull):
        world.log.features.push("Pay", pay("3"))

    world.log.delete("Pay", seqs=[1])

    assert world.log.features.push("Pay", pay("3")).count == 1


def test_a_push_that_was_interrupted_is_known_when_it_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.register()
    queue = LogOfFeatures.queue

    def interrupted(self: LogOfFeatures, *args: Any) -> QueuedAppend:
        queue(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogOfFeatures, "queue", interrupted)
        with pytest.raises(KeyboardInterrupt):
            world.log.features.push("Pay", pay("1"))

    again = world.log.features.push("Pay", pay("1"), sync="per_event")

    assert (again.count, again.deduped, again.first_seq) == (0, 1, 1)
    assert world.fewest_after_a_crash() == 1


def test_an_id_that_occurs_twice_in_a_push_has_the_seq_of_its_event(world: World) -> None:
    world.register()
    world.log.features.push("Pay", [pay("1"), pay("2"), pay("3")])

    pushed = world.log.features.push("Pay", [pay("2"), pay("2"), pay("2")])

    assert (pushed.first_seq, pushed.last_seq, pushed.deduped) == (2, 2, 3)


# Topics that are never synced.


@pytest.mark.parametrize("dedupe", [True, False])
def test_a_push_that_must_be_synced_is_refused_in_a_topic_that_never_is(
    world: World, dedupe: bool
) -> None:
    world.log.create("Pay", durability="ephemeral")
    world.register(**({} if dedupe else {"dedupe": None}))

    with pytest.raises(InvalidArgument, match=r"'Pay' has durability 'ephemeral'.*'disk' or 'fsy"):
        world.log.features.push("Pay", pay("1"), sync="per_event")

    assert world.log.topic("Pay").head_seq == 0
    assert world.log.features.push("Pay", pay("1")).count == 1


def test_an_event_type_whose_topic_became_ephemeral_refuses_pushes(world: World) -> None:
    world.register(sync="per_event")
    world.log.create("Pay", durability="ephemeral")

    with pytest.raises(InvalidArgument, match="never synced"):
        world.log.features.push("Pay", pay("1"))


def test_an_event_type_whose_topic_would_be_made_again_in_memory_refuses_pushes() -> None:
    fs = MemoryFilesystem()
    bounds = states.settings(default_durability="ephemeral")
    with states.open_log(fs, bounds=bounds) as log:
        log.features.register({"events": [PAY | {"sync": "per_event"}]})
        log.drop("Pay")

        with pytest.raises(InvalidArgument, match="never synced"):
            log.features.push("Pay", pay("1"))


# Registrations.


SYNCED: dict[str, Any] = {"name": "Synced", "fields": {"a": "i64"}, "sync": "per_event"}
PLAIN: dict[str, Any] = {"name": "Plain", "fields": {"a": "i64"}}


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("events", "error", "why"),
    [
        ([PLAIN, SYNCED | {"topic": "old"}], InvalidArgument, "'old' has durability 'disk'"),
        ([PLAIN, SYNCED | {"topic": "ram"}], InvalidArgument, "'ram' has durability 'ephemeral'"),
        ([PLAIN, SYNCED, PLAIN | {"name": "Other"}], Overloaded, "max_topics"),
    ],
)
def test_a_registration_whose_topics_do_not_fit_is_refused_before_anything_is_made(
    events: list[dict[str, Any]], error: type[Exception], why: str, dry_run: bool
) -> None:
    bounds = states.settings(max_topics=4)
    with states.open_log(MemoryFilesystem(), bounds=bounds) as log:
        log.create("old")
        log.create("ram", durability="ephemeral")

        with pytest.raises(error, match=why):
            log.features.register({"events": events}, dry_run=dry_run)

        assert [topic.name for topic in log.topics()] == ["old", "ram"]
        assert log.features.version == 0


def test_a_dry_run_refuses_what_the_registration_refuses(world: World) -> None:
    world.register()

    refusals = []
    for dry_run in (True, False):
        with pytest.raises(InvalidArgument) as refused:
            world.log.features.register({"events": [PAY | {"sync": "per_event"}]}, dry_run=dry_run)
        refusals.append(str(refused.value))

    assert refusals[0] == refusals[1]
    assert "change the topic's durability first" in refusals[0]
