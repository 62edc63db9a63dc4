"""Who is in a cohort, on which terms, and which answer is whose."""

from __future__ import annotations

from penstock.engine.claim_cohorts import Cohort, Cohorts
from penstock.engine.queues import Claimer
from penstock.errors import Overloaded
from penstock.types import Claimed

ANN, BOB = Claimer("ann", 2, 7_000), Claimer("bob", 9)


def ignore(outcome: object) -> None:
    """Nobody waits."""


def test_the_first_one_gets_the_cohort_and_the_others_join_it() -> None:
    cohorts = Cohorts()

    opened = cohorts.join(1, ANN, ignore)

    assert opened is not None
    assert cohorts.join(1, BOB, ignore) is None
    assert [one.node for one in opened.claimers] == ["ann", "bob"]


def test_each_queue_has_its_own() -> None:
    cohorts = Cohorts()

    assert cohorts.join(1, ANN, ignore) is not cohorts.join(2, ANN, ignore)


def test_nobody_joins_one_that_is_closed() -> None:
    cohorts = Cohorts()
    first = cohorts.join(1, ANN, ignore)
    cohorts.close(1)

    second = cohorts.join(1, BOB, ignore)

    assert first is not None
    assert second is not None
    assert [len(one.claimers) for one in (first, second)] == [1, 1]


def test_the_lease_of_the_first_holds_for_all_and_each_wants_what_it_wants() -> None:
    cohort = Cohort()
    for claimer in (ANN, BOB):
        cohort.add(claimer, ignore)

    assert cohort.claimers == [ANN, Claimer("bob", 9, 7_000)]


def test_each_gets_its_own_answer() -> None:
    cohort = Cohort()
    told: dict[str, object] = {}
    for node in "abc":
        cohort.add(Claimer(node, 1), lambda outcome, node=node: told.update({node: outcome}))
    answers = [Claimed("q", [], ready) for ready in range(3)]

    cohort.answer(answers)

    assert list(told.values()) == answers
    assert list(told) == ["a", "b", "c"]


def test_what_goes_wrong_goes_wrong_for_all() -> None:
    cohort = Cohort()
    told: list[object] = []
    for claimer in (ANN, BOB):
        cohort.add(claimer, told.append)
    error = Overloaded("the write queue is full", retry_after_ms=100)

    cohort.answer(error)

    assert told == [error, error]
