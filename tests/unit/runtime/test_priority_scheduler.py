"""Bands, credit, age and the place in the queue, held against a model that does it the slow way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.effective_priority import age_boost
from penstock.runtime.priority_scheduler import ReadySet, band_of

WEIGHTS = {4: 8, 3: 4, 2: 2, 1: 1, 0: 1}
LOWEST = {4: 750, 3: 500, 2: 250, 1: 0, 0: -1000}  # priority of each band
ROUND = 16
GROWN_MS = 10_000
TICK_MS = 50

priorities = st.integers(-1000, 1000)


class Model:
    """The same rules with no cleverness: all is a list, and each tick looks at everyone."""

    def __init__(self) -> None:
        self.queued: dict[int, dict[str, Any]] = {}
        self.serving: dict[int, dict[str, Any] | None] = {}
        self.again: dict[int, dict[str, Any]] = {}
        self.credit = dict(WEIGHTS)
        self.deferring = False
        self.arrivals = 0
        self.last_beat = -1

    def band(self, unit: dict[str, Any], now: int) -> int:
        waited = min(now - unit["since"], GROWN_MS)
        tenths = unit["priority"] * 10 + waited
        band = sum(tenths >= floor for floor in (0, 2500, 5000, 7500))
        is_lowered = self.deferring and unit["router"] and waited < GROWN_MS
        return max(0, band - 1) if is_lowered else band

    def mark(self, topic: int, priority: int, now: int, router: bool) -> None:
        place = self.again if topic in self.serving else self.queued
        if topic not in place:
            place[topic] = {"topic": topic, "since": now, "arrival": self.arrivals}
            self.arrivals += 1
        place[topic].update(priority=priority, router=router)
        place[topic]["band"] = self.band(place[topic], now)

    def tick(self, now: int) -> None:
        if now // TICK_MS != self.last_beat:
            self.last_beat = now // TICK_MS
            self.place_all(now)

    def place_all(self, now: int) -> None:
        for unit in self.queued.values():
            unit["band"] = self.band(unit, now)

    def take(self, now: int) -> int | None:
        self.tick(now)
        busy = {unit["band"] for unit in self.queued.values()}
        if not any(self.credit[band] for band in busy):
            self.credit = {**WEIGHTS, 0: 0 if self.deferring else 1}
        able = [band for band in busy if self.credit[band]]
        if not able:
            return None
        band = max(able, key=lambda band: (self.credit[band], band))
        self.credit[band] -= 1
        inside = [unit for unit in self.queued.values() if unit["band"] == band]
        first = min(inside, key=lambda unit: (unit["since"], unit["arrival"]))
        topic: int = first["topic"]
        self.serving[topic] = self.queued.pop(topic)
        return topic

    def end(self, topic: int, now: int) -> None:
        del self.serving[topic]
        new = self.again.pop(topic, None)
        if new is not None:
            self.queued[topic] = new
            new["band"] = self.band(new, now)

    def forget(self, topic: int) -> None:
        self.again.pop(topic, None)
        self.queued.pop(topic, None)
        if topic in self.serving:
            self.serving[topic] = None

    def defer(self, is_deferring: bool, now: int) -> None:
        if is_deferring != self.deferring:
            self.deferring = is_deferring
            self.credit[0] *= not is_deferring
            self.place_all(now)

    def depths(self) -> tuple[int, ...]:
        counts = Counter(unit["band"] for unit in self.queued.values())
        return tuple(counts[band] for band in range(5))


numbers = st.integers(0, 24)
marks = st.tuples(numbers, priorities, st.booleans())
operations = st.one_of(
    st.tuples(st.just("mark"), st.lists(marks, min_size=1, max_size=16)),
    st.tuples(st.just("mark while served"), numbers, priorities),
    st.tuples(st.just("take"), st.integers(1, 20)),
    st.tuples(st.just("done"), numbers),
    st.tuples(st.just("done with all")),
    st.tuples(st.just("forget"), numbers),
    st.tuples(st.just("defer"), st.booleans()),
    st.tuples(st.just("tick")),
    st.tuples(st.just("wait"), st.sampled_from([1, 7, 50, 333, 1_000, 2_500, 9_999])),
)


def fill(ready: ReadySet[tuple[int, int]], bands: list[int], each: int, now: int = 0) -> None:
    for number in range(each):
        for band in bands:
            ready.mark((band, number), LOWEST[band], now)


def drain(ready: ReadySet[Any], now: int = 0) -> list[Any]:
    found = []
    while (topic := ready.take(now)) is not None:
        ready.done(topic, now)
        found.append(topic)
    return found


@given(st.lists(operations, min_size=10, max_size=100))
def test_it_decides_as_the_slow_model_does(script: list[tuple[Any, ...]]) -> None:
    ready: ReadySet[int] = ReadySet()
    model = Model()
    now = 0

    for step in script:
        serving = list(model.serving)
        match step:
            case ("mark", marked):
                for topic, priority, router in marked:
                    ready.mark(topic, priority, now, is_router=router)
                    model.mark(topic, priority, now, router)
            case ("mark while served", number, priority) if serving:
                topic = serving[number % len(serving)]
                ready.mark(topic, priority, now)
                model.mark(topic, priority, now, False)
            case ("take", times):
                for _ in range(times):
                    assert ready.take(now) == model.take(now)
            case ("done", number) if serving:
                ready.done(serving[number % len(serving)], now)
                model.end(serving[number % len(serving)], now)
            case ("done with all",):
                for topic in serving:
                    ready.done(topic, now)
                    model.end(topic, now)
            case ("forget", topic):
                ready.forget(topic)
                model.forget(topic)
            case ("defer", is_deferring):
                ready.defer(is_deferring, now)
                model.defer(is_deferring, now)
            case ("tick",):
                ready.tick(now)
                model.tick(now)
            case ("wait", duration):
                now += duration
        assert ready.depths() == model.depths()
        assert len(ready) == len(model.queued) == ready.depth + ready.paused
    while (last := ready.take(now)) is not None:
        assert last == model.take(now)
    assert model.take(now) is None


@pytest.mark.parametrize(
    ("priority", "band"),
    [(-1000, 0), (-1, 0), (0, 1), (249, 1), (250, 2), (499, 2), (500, 3), (749, 3), (750, 4)],
)
def test_a_band_begins_at_its_priority(priority: int, band: int) -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("orders", priority, 0)

    assert band_of(priority) == band
    assert ready.depths().index(1) == band


@pytest.mark.parametrize(
    ("waited_ms", "boost"),
    [(-5, 0), (0, 0), (1, 0.1), (2_500, 250), (10_000, 1000), (99_999, 1000)],
)
def test_waiting_adds_a_hundred_points_a_second_for_ten_seconds(
    waited_ms: int, boost: float
) -> None:
    assert age_boost(waited_ms) == boost


@given(st.sets(st.sampled_from(range(5)), min_size=1), st.integers(1, 6))
def test_busy_bands_are_served_by_their_weights_in_every_round(
    bands: set[int], rounds: int
) -> None:
    ready: ReadySet[tuple[int, int]] = ReadySet()
    fill(ready, sorted(bands), each=8 * rounds)

    for _ in range(rounds):
        services = sum(WEIGHTS[band] for band in bands)
        found = Counter(topic[0] for _ in range(services) if (topic := ready.take(0)))

        assert found == {band: WEIGHTS[band] for band in bands}


def test_a_late_and_important_topic_need_not_wait_for_the_next_round() -> None:
    ready: ReadySet[tuple[int, int]] = ReadySet()
    fill(ready, [1, 2], each=40)
    ready.take(0)

    ready.mark((4, 0), 900, 0)

    assert ready.take(0) == (4, 0)


@given(
    priority=priorities,
    is_router=st.booleans(),
    older=st.integers(0, 100),
    older_priority=st.one_of(st.none(), priorities),
    step_ms=st.integers(40, 150),
    flip_every=st.one_of(st.none(), st.just(0), st.integers(1, 60)),
    remarks=st.booleans(),
)
@settings(max_examples=60)
def test_nobody_starves(
    priority: int,
    is_router: bool,
    older: int,
    older_priority: int | None,
    step_ms: int,
    flip_every: int | None,
    remarks: bool,
) -> None:
    """More arrives in every band than is ever served, deferring or not, and still ten seconds and
    a number of services that depends only on who came before are enough."""
    ready: ReadySet[Any] = ReadySet()
    ready.defer(flip_every is not None, 0)
    for number in range(older):
        ready.mark(("older", number), priority if older_priority is None else older_priority, 0)
    ready.mark("patient", priority, 0, is_router=is_router)
    weight = WEIGHTS[band_of(priority + 1000)]  # of the band that it ends up in
    now, step, before, services_left = 0, 0, older, None

    while True:
        now += step_ms
        step += 1
        if flip_every:
            ready.defer(step // flip_every % 2 == 0, now)
        for rank in (1000, 749, 499, 249, -1):
            ready.mark(("rival", step, rank), rank, now)
        if remarks:  # a topic that is written all the time ages like any other
            ready.mark("patient", priority, now, is_router=is_router)
        served = ready.take(now)
        if served == "patient":
            break
        assert served is not None, "the bands above are busy"
        ready.done(served, now)
        before -= served[0] == "older"
        if services_left is None and now >= GROWN_MS + TICK_MS:
            services_left = ROUND * (before // weight + 2)
        elif services_left is not None:
            services_left -= 1
            assert services_left > 0, f"still waiting at {now} ms"
    assert ready.waited_ms("patient") == now


@given(priorities, st.booleans(), st.booleans())
def test_after_ten_seconds_a_topic_is_as_high_as_age_can_lift_it(
    priority: int, is_router: bool, is_deferring: bool
) -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("old", priority, 0, is_router=is_router)
    ready.defer(is_deferring, 0)

    for now in range(0, GROWN_MS + TICK_MS, TICK_MS):
        ready.tick(now)

    band = ready.depths().index(1)
    assert band >= 1
    assert band == 4 or priority < -250
    assert ready.take(now) == "old"


@given(
    st.lists(
        st.tuples(st.sampled_from(["mark", "take", "done"]), st.integers(0, 5), priorities),
        max_size=100,
    )
)
def test_a_topic_is_queued_once_and_no_mark_is_lost(script: list[tuple[str, int, int]]) -> None:
    ready: ReadySet[int] = ReadySet()
    owed: set[int] = set()
    serving: list[int] = []

    for now, (verb, topic, priority) in enumerate(script):
        if verb == "mark":
            ready.mark(topic, priority, now)
            owed.add(topic)
        elif verb == "done" and serving:
            ready.done(serving.pop(0), now)
        elif verb == "take" and (taken := ready.take(now)) is not None:
            assert taken not in serving
            owed.remove(taken)
            serving.append(taken)
        assert len(ready) == len(owed - set(serving))

    for topic in serving:
        ready.done(topic, len(script))
    assert sorted(drain(ready, len(script))) == sorted(owed)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(250, 490)), max_size=60))
def test_a_band_is_first_in_first_out(marked: list[tuple[int, int]]) -> None:
    ready: ReadySet[int] = ReadySet()

    for topic, priority in marked:
        ready.mark(topic, priority, 0)

    assert drain(ready) == list(dict.fromkeys(topic for topic, _ in marked))


def test_a_promoted_topic_goes_before_those_who_came_later() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("older", 240, 0)
    ready.mark("younger", 250, 30)

    assert ready.depths() == (0, 1, 1, 0, 0)
    ready.tick(100)

    assert ready.depths() == (0, 0, 2, 0, 0)
    assert drain(ready, 100) == ["older", "younger"]


def test_promotion_waits_for_the_tick() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.tick(100)
    ready.mark("orders", 249, 101)

    ready.tick(149)
    assert ready.depths() == (0, 1, 0, 0, 0)
    ready.tick(150)

    assert ready.depths() == (0, 0, 1, 0, 0)


def test_a_mark_during_service_waits_since_that_mark() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("busy", 100, 0)
    assert ready.take(0) == "busy"
    ready.mark("busy", 100, 10)
    ready.mark("other", 100, 20)

    assert len(ready) == 1
    ready.done("busy", 40)

    assert ready.take(40) == "busy"
    assert ready.waited_ms("busy") == 30


def test_age_ends_with_service() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("orders", 0, 0)
    assert ready.take(5_030) == "orders"
    assert ready.waited_ms("orders") == 5_030
    ready.mark("orders", 0, 5_040)
    ready.done("orders", 5_050)

    assert ready.depths() == (0, 1, 0, 0, 0)


def test_a_new_priority_moves_a_queued_topic_at_once_and_keeps_its_age() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("orders", 0, 0)
    ready.mark("others", 800, 20)

    ready.mark("orders", 800, 30)

    assert drain(ready, 30) == ["orders", "others"]


def test_deferring_pauses_band_0_until_it_ends() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("least", -1000, 0)
    ready.mark("orders", 0, 0)
    ready.defer(True, 0)

    assert (ready.depth, ready.paused, len(ready)) == (1, 1, 2)
    assert drain(ready) == ["orders"]
    assert ready.depth == 0
    ready.defer(False, 0)

    assert ready.depth == 1
    assert drain(ready) == ["least"]


def test_a_topic_that_climbed_out_of_band_0_is_served_while_deferring() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.defer(True, 0)
    ready.mark("least", -20, 0)

    assert ready.take(199) is None
    assert ready.take(200) == "least"


def test_credit_already_granted_to_band_0_ends_with_deferring() -> None:
    ready: ReadySet[tuple[int, int]] = ReadySet()
    fill(ready, [0, 1, 4], each=20)
    ready.take(0)

    ready.defer(True, 0)

    assert {band for band, _ in drain(ready)} == {1, 4}


def test_routers_stand_one_band_lower_while_deferring() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("copy", 600, 0, is_router=True)
    ready.mark("push", 600, 0)

    ready.defer(True, 0)
    assert ready.depths() == (0, 0, 1, 1, 0)
    ready.defer(False, 0)

    assert ready.depths() == (0, 0, 0, 2, 0)


def test_a_router_of_the_lowest_priority_is_paused_for_ten_seconds_at_most() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.defer(True, 0)
    ready.mark("copy", -1000, 0, is_router=True)

    assert ready.take(9_999) is None
    assert ready.take(10_000) == "copy"


def test_a_forgotten_topic_is_served_no_more() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("queued", 0, 0)
    ready.mark("served", 900, 0)
    assert ready.take(0) == "served"
    ready.mark("served", 900, 0)

    for topic in ("queued", "served", "unknown"):
        ready.forget(topic)
    assert ready.waited_ms("served") == 0
    ready.done("served", 1)

    assert len(ready) == 0
    assert ready.take(1) is None


def test_a_topic_made_again_during_its_last_service_waits_for_the_end_of_it() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("orders", 0, 0)
    ready.take(0)
    ready.forget("orders")

    ready.mark("orders", 0, 5)
    assert ready.take(5) is None
    ready.done("orders", 6)

    assert ready.take(6) == "orders"


def test_topics_that_change_bands_all_the_time_take_no_more_room() -> None:
    ready: ReadySet[int] = ReadySet()

    for turn in range(2_000):
        topic = turn % 10
        ready.mark(topic, (-1, 900)[(turn // 10 + topic) % 2], 0)

    assert len(ready) == 10
    assert sum(len(band.heap) for band in ready._bands) < 100


def test_a_call_that_cannot_be_right_is_a_bug() -> None:
    ready: ReadySet[str] = ReadySet()
    ready.mark("orders", 0, 0)

    with pytest.raises(AssertionError, match="not being served"):
        ready.done("orders", 0)
    with pytest.raises(AssertionError, match="priority -1001"):
        ready.mark("orders", -1001, 0)
