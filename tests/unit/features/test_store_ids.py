"""The memory of the ids of an event type: its bound, and what happens there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from penstock.errors import Overloaded, ProjectionFailed
from penstock.feature_types import EventIdsStatus
from tests.unit.features.test_store import Opened

MIB = 1 << 20
HOUR_MS = 3_600_000
STEP = 500


@pytest.fixture
def opened() -> Iterator[Opened]:
    here = Opened()
    here.store.register(pays("1MiB"))
    yield here
    here.close()


def pays(memory_max: str) -> dict[str, Any]:
    event = {
        "name": "Pay",
        "fields": {"id": "str"},
        "dedupe": {"field": "id", "window": "1h", "memory_max": memory_max},
    }
    table = {"name": "Pays", "from": "Pay", "features": {"n": {"op": "count"}}}
    return {"events": [event], "tables": [table]}


def events(first: int, count: int = STEP) -> list[dict[str, str]]:
    return [{"id": f"{number:036d}"} for number in range(first, first + count)]


def fill(opened: Opened) -> tuple[int, Overloaded]:
    """Push until there is no room: (how many were pushed, the error)."""
    for first in range(0, 100_000, STEP):
        try:
            opened.store.push("Pay", events(first))
        except Overloaded as error:
            return first, error
    raise AssertionError("there was always room")


def ids_of(opened: Opened) -> EventIdsStatus:
    found = opened.store.table("Pays").ids
    assert found is not None
    return found


def test_a_push_that_needs_more_memory_for_ids_is_refused_before_anything_stops(
    opened: Opened,
) -> None:
    count, refused = fill(opened)

    assert 5_000 < count <= 6_000  # texts are smaller since Python 3.12
    message = str(refused)
    for told in ("500 new ids of event 'Pay'", f"{count} ids of the last 1h", f"of {MIB}"):
        assert told in message
    assert refused.limit == ("memory_max", MIB)
    assert HOUR_MS < refused.retry_after_ms <= HOUR_MS * 10 // 8
    assert opened.store.get("Pays") == {"n": count}
    ids = ids_of(opened)
    assert (ids.state, ids.ids, ids.bytes_max) == ("ready", count, MIB)
    assert MIB - 500 * 250 < ids.bytes <= MIB
    again = opened.store.push("Pay", events(0))
    assert (again.count, again.deduped) == (0, 500)


def test_there_is_room_again_when_ids_are_older_than_the_window(opened: Opened) -> None:
    count, refused = fill(opened)

    opened.clock.advance(refused.retry_after_ms - 1)
    with pytest.raises(Overloaded):
        opened.store.push("Pay", events(count))
    opened.clock.advance(1)
    opened.store.push("Pay", events(count))

    assert opened.store.push("Pay", events(0, 1)).count == 1  # which is known no more
    assert ids_of(opened).ids == 500
    opened.open()
    assert opened.store.push("Pay", events(count, 1)).deduped == 1


def test_more_memory_holds_at_once_and_costs_nothing(opened: Opened) -> None:
    count, _ = fill(opened)
    held = opened.projections.find("dedupe", "Pay")

    changed = opened.store.register(pays("2MiB"))

    assert [change["cost"] for change in changed.changes] == ["nothing"]
    assert opened.projections.find("dedupe", "Pay") is held
    assert opened.store.push("Pay", [*events(0), *events(count)]).count == 500
    assert ids_of(opened).bytes_max == 2 * MIB


def test_ids_that_came_without_a_push_may_stop_the_index_until_it_has_more_memory(
    opened: Opened,
) -> None:
    texts = [msgspec.json.encode(event) for event in events(0, 8_000)]
    opened.store._log.append("Pay", texts, is_synced=False)

    with pytest.raises(ProjectionFailed, match=r"ids of event 'Pay' .* raise `memory_max` of its"):
        opened.store.push("Pay", events(9_000))
    assert ids_of(opened).state == "failed"
    assert "bytes of memory" in ids_of(opened).reason

    opened.store.register(pays("4MiB"))
    assert opened.store.push("Pay", [*events(7_999, 2)]).count == 1
    assert ids_of(opened).state == "ready"


def test_ids_of_an_append_under_way_need_no_room_again(opened: Opened) -> None:
    pusher = opened.store.pusher("Pay")
    most = events(0, 4_000)
    begun = pusher.begin([msgspec.json.encode(one) for one in most], None)
    assert begun.queued is not None

    again = pusher.begin([msgspec.json.encode(one) for one in most], None)

    assert (again.queued, again.deduped) == (None, 4_000)
    assert begun.queued.wait().count == 4_000
    assert opened.store.push("Pay", most).deduped == 4_000
