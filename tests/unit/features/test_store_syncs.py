"""What a push has promised when it is answered: crashes, classes of topics, shared syncs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.engine import Log
from penstock.testing.fs import MemoryFilesystem
from tests.support import states

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
