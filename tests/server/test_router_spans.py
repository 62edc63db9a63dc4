"""From where on a router copies, and until when: nothing that was answered falls between."""

from __future__ import annotations

import pytest

from tests.server.queues import ack, claim, queue
from tests.server.routers import (
    chain,
    datas,
    each_distance,
    forwarded,
    names,
    records,
    remove,
    route,
)
from tests.server.support import Api, datas_of, new_name, seqs_of


@pytest.fixture
def ends() -> tuple[str, str]:
    return new_name("source"), new_name("dest")


def test_a_new_router_copies_what_is_written_after_it(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.write(source, "old", "older")

    name = route(api, source, dest)

    assert (datas(api, dest), forwarded(api, name)) == ([], 0)
    api.write(source, "new")
    assert (datas(api, dest), forwarded(api, name)) == (["new"], 1)


def test_putting_it_again_does_not_move_it(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.write(source, "before")
    for n in range(5):
        name = route(api, source, dest, preserve_node=n % 2 == 0)
        api.write(source, n)

    assert datas(api, dest) == list(range(5))
    assert forwarded(api, name) == 5


def test_a_router_that_goes_leaves_its_copies(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    name = route(api, source, dest)
    api.write(source, 1, 2)
    assert datas(api, dest) == [1, 2]

    remove(api, name)
    api.write(source, 3)

    assert datas(api, dest) == [1, 2]


@each_distance
@pytest.mark.parametrize("end", ["last router", "first router", "source", "middle"])
def test_what_was_answered_before_the_end_is_copied(api: Api, end: str, hops: int) -> None:
    """Though nobody has looked at the dest yet."""
    for _ in range(15):
        topics = names(hops + 1)
        routers = chain(api, topics)

        api.write(topics[0], 1, 2)
        if end == "last router":
            remove(api, routers[-1])
        elif end == "first router":
            remove(api, routers[0])
        else:
            api.drop(topics[0] if end == "source" else topics[-2])

        assert datas(api, topics[-1]) == [1, 2]


@each_distance
def test_what_was_answered_before_a_change_goes_by_the_old_knobs(api: Api, hops: int) -> None:
    for _ in range(15):
        topics = names(hops + 1)
        chain(api, topics)

        api.write(topics[0], 1, 2)
        route(api, topics[-2], topics[-1], filter="x", guarantee="exactly_once")
        api.tagged(topics[0], "x")

        found = records(api, topics[-1])
        assert [("meta" in record, record["data"]) for record in found] == [
            (False, 1),
            (False, 2),
            (True, "x"),
        ]


@pytest.mark.parametrize("hops", [1, 2, 4, 7])
def test_what_was_answered_before_a_router_was_made_is_not_copied_by_it(
    api: Api, hops: int
) -> None:
    """Also when it comes to the source over others, which nobody has looked at yet."""
    for _ in range(15):
        topics = names(hops + 2)
        chain(api, topics[:-1])

        api.write(topics[0], "before")
        route(api, topics[-2], topics[-1])
        api.write(topics[0], "after")

        assert datas(api, topics[-2]) == ["before", "after"]
        assert datas(api, topics[-1]) == ["after"]


def test_a_router_made_anew_begins_anew(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    remove(api, route(api, source, dest))
    api.write(source, "unseen")

    name = route(api, source, dest)
    api.write(source, "seen")

    assert datas(api, dest) == ["seen"]
    assert forwarded(api, name) == 1


def test_deletes_do_not_travel(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)
    api.tagged(source, "a", "b", "c")
    assert datas(api, dest) == [*"abc"]

    api.remove(source, match="a")
    api.remove(source, before_seq=3)
    assert datas(api, dest) == [*"abc"]
    api.remove(dest, match="c")

    assert (datas(api, source), datas(api, dest)) == (["c"], ["a", "b"])


def test_jobs_done_at_the_source_stay_in_the_dest(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    queue(api, source)
    route(api, source, dest)
    api.write(source, 1, 2)
    assert datas(api, dest) == [1, 2]

    claim(api, source, 2)
    ack(api, source, 1, 2)

    assert api.state(source)["count"] == 0
    assert datas(api, dest) == [1, 2]


def test_a_dest_forgets_by_its_own_cap(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(dest, cap_records=3)
    name = route(api, source, dest)

    api.write(source, *range(5))

    answer = api.diff(dest)
    assert (datas_of(answer), seqs_of(answer)) == ([2, 3, 4], [3, 4, 5])
    gap = answer["tombstone"]
    assert (gap["gap_from"], gap["gap_to"], gap["reason"]) == (1, 2, "cap")
    assert forwarded(api, name) == 5
    assert datas(api, source) == list(range(5))
