"""Round trips, how far a record may go, and runs of seqs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.entries import RouterCreated
from penstock.limits import HOPS_MAX
from penstock.topics.router import Router, cycle, hops_allowed, runs_of, seqs_of
from penstock.types import RouterRules, TagMatch

RULES = RouterRules(match=TagMatch(b"eu:", True))


def test_a_round_trip_begins_and_ends_with_the_new_source() -> None:
    sources = {"b": "a", "c": "b"}

    assert cycle(sources, "c", "a") == ["c", "a", "b", "c"]
    assert cycle(sources, "b", "a") == ["b", "a", "b"]
    assert cycle(sources, "c", "d") is None
    assert cycle({}, "a", "b") is None


def test_an_old_round_trip_elsewhere_does_not_trap_the_search() -> None:
    sources = {"a": "b", "b": "a", "c": "a"}

    assert cycle(sources, "c", "d") is None


def test_a_record_goes_nowhere_twice() -> None:
    ring = {"b": "a", "c": "b", "a": "c"}

    assert hops_allowed(ring, "a", "b") == 2  # once round, and it would be back
    assert hops_allowed({"b": "a", "a": "b"}, "a", "b") == 1
    assert hops_allowed({"b": "a"}, "b", "c") == HOPS_MAX


def test_a_very_long_ring_ends_by_the_count_of_hops() -> None:
    ring = {str(n): str(n - 1) for n in range(1, 20)} | {"0": "19"}

    assert hops_allowed(ring, "3", "4") == HOPS_MAX


@given(st.sets(st.integers(1, 500)))
def test_runs_and_seqs_say_the_same(seqs: set[int]) -> None:
    runs = runs_of(sorted(seqs))

    again = [seq for first, count in seqs_of(runs) for seq in range(first, first + count)]
    assert again == sorted(seqs)
    assert sum(runs[1::2]) == len(seqs)


def test_neighbours_take_one_run_however_many() -> None:
    assert runs_of(range(1000, 5000)) == (999, 4000)


def test_other_rules_leave_the_position_alone() -> None:
    made = RouterCreated("r", "a", "b", RULES.bits, RULES.match, 7, 0, 2, 1)
    router = Router.of(made)
    assert router.rules == RULES
    router.went_on(9, 2)

    router.obey(RouterCreated("r", "a", "b", 0, None, 0, 0, 2, 1))

    assert (router.cursor, router.forwarded) == (9, 2)
    assert router.rules == RouterRules(False, False)


def test_a_position_never_goes_back() -> None:
    router = Router("r", "a", 1, RULES, 5)

    router.went_on(3, 0)

    assert router.cursor == 5


def test_rules_and_their_bits_say_the_same() -> None:
    for bits in range(16):
        assert RouterRules.of(bits).bits == bits
    assert RULES.filter == ("tag", "Glob", "eu:*")
    assert RouterRules(match=TagMatch(b"x", False)).filter == ("tag", "Eq", "x")
