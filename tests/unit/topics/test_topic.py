"""One topic's rules: first a model that forgets nothing, then the laws one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.atomic_steps import perform
from penstock.entries import FloorMoved, RecordsDeleted
from penstock.topics.topic import Topic
from penstock.types import (
    Cause,
    LossRange,
    TagMatch,
    TopicConfig,
)
from tests.unit.topics.support import Row, appended, live_seqs, place, topic_of

FIVE = [Row()] * 5


def deletion(
    topic: Topic,
    *,
    before: int | None = None,
    match: TagMatch | None = None,
    seqs: tuple[int, ...] = (),
    bound: int | None = None,
) -> RecordsDeleted:
    return RecordsDeleted(topic.id, before, match, seqs, topic.head if bound is None else bound)


def expire(topic: Topic, now_ms: int) -> None:
    expired = topic.expired_to(now_ms)
    topic.apply_floor(FloorMoved(topic.id, topic.evict_floor, topic.earliest, expired))


# A model: every record in a dict, every rule a loop over all of it.

rows = st.builds(Row, st.integers(0, 5), st.just(0), st.sampled_from(["", "a", "ab", "b"]))
caps = st.sampled_from([0, 0, 3, 7])
seq_numbers = st.integers(0, 40)
steps = st.lists(
    st.tuples(st.just("append"), st.lists(rows, min_size=1, max_size=6))
    | st.tuples(st.just("jump"), st.integers(1, 3))
    | st.tuples(st.just("before"), seq_numbers)
    | st.tuples(st.just("tag"), st.sampled_from(["a", "ab", "a*", "*", "c"]))
    | st.tuples(st.just("seqs"), st.sets(seq_numbers, min_size=1, max_size=5))
    | st.tuples(st.just("expire"), st.integers(0, 12))
    | st.tuples(st.just("caps"), st.tuples(caps, caps))
    | st.tuples(st.just("bury"), st.tuples(seq_numbers, st.integers(0, 4))),
    max_size=20,
)


class Model:
    """Live records by seq, and what was lost without anyone asking for it."""

    def __init__(self) -> None:
        self.live: dict[int, Row] = {}
        self.head = 0
        self.lost: set[int] = set()
        self.evicted = 0
        self.config = TopicConfig(ttl_ms=3)

    def evict(self) -> None:
        config = self.config
        while self.live and (
            (config.cap_records and len(self.live) > config.cap_records)
            or (config.cap_bytes and sum(r.size for r in self.live.values()) > config.cap_bytes)
        ):
            self.lose(min(self.live))

    def lose(self, seq: int) -> None:
        self.live.pop(seq, None)
        self.lost.add(seq)
        self.evicted = max(self.evicted, seq)

    def remove(self, seqs: list[int]) -> int:
        return len([self.live.pop(seq) for seq in seqs])


@given(steps=steps)
def test_a_topic_is_what_the_model_says(steps: list[tuple[str, object]]) -> None:
    model = Model()
    topic = Topic(1, "t", model.config, 0)

    for now, (step, what) in enumerate(steps):
        floors = topic.evict_floor, topic.expiry_floor, topic.delete_floor, topic.earliest
        act(topic, model, step, what, now)

        assert live_seqs(topic) == sorted(model.live)
        assert topic.live == len(model.live)
        assert topic.bytes == sum(row.size for row in model.live.values())
        assert topic.head == model.head
        assert topic.earliest == min(model.live, default=model.head + 1)
        assert topic.evict_earliest <= topic.earliest
        assert topic.lost_floor >= model.evicted
        moved = topic.evict_floor, topic.expiry_floor, topic.delete_floor, topic.earliest
        assert all(new >= old for new, old in zip(moved, floors, strict=True))
        told = {s for loss in topic.losses for s in range(loss.first, loss.last + 1)}
        assert model.lost <= told | set(range(1, topic.lost_floor + 1))
        assert not told & set(model.live)


def act(topic: Topic, model: Model, step: str, what: object, now: int) -> None:
    removed, before = 0, topic.live
    if step == "append":
        taken = [row._replace(ts=now) for row in what]
        topic.apply_append(appended(topic.head + 1, taken), place)
        model.live |= {model.head + 1 + at: row for at, row in enumerate(taken)}
        model.head += len(taken)
        model.evict()
    elif step == "jump":
        topic.apply_append(appended(topic.head + 1 + what, [Row(1, now)]), place)
        model.lost |= set(range(model.head + 1, model.head + 1 + what))
        model.head += what + 1
        model.live[model.head] = Row(1, now)
        model.evict()
    elif step == "before":
        answer = topic.apply_delete(deletion(topic, before=what))
        removed = model.remove([seq for seq in model.live if seq < what])
        assert answer == removed
    elif step == "tag":
        match = TagMatch(what.rstrip("*").encode(), what.endswith("*"))
        answer = topic.apply_delete(deletion(topic, match=match))
        value = what.rstrip("*")
        removed = model.remove(
            [
                seq
                for seq, row in model.live.items()
                if row.tag and (row.tag.startswith(value) if match.is_prefix else row.tag == value)
            ]
        )
        assert answer == removed
    elif step == "seqs":
        answer = topic.apply_delete(deletion(topic, seqs=tuple(what)))
        removed = model.remove([seq for seq in model.live if seq in what])
        assert answer == removed
    elif step == "expire":
        expire(topic, now)
        for seq in [s for s, row in model.live.items() if now - row.ts > topic.config.ttl_ms]:
            model.lose(seq)
    elif step == "caps":
        model.config = TopicConfig(ttl_ms=3, cap_records=what[0], cap_bytes=what[1])
        topic.configure(model.config)
        model.evict()
    else:
        first, last = what[0] or 1, min((what[0] or 1) + what[1], model.head)
        if first <= last:
            topic.drop_unreadable(first, last, Cause.DAMAGE)
            model.lost |= set(range(first, last + 1))
            model.live = {s: row for s, row in model.live.items() if not first <= s <= last}
    assert not removed or topic.live == before - removed


# Appending.


def test_a_fresh_topic_begins_at_one() -> None:
    topic = Topic(7, "t", TopicConfig(), 5)

    assert (topic.head, topic.earliest, topic.evict_earliest, topic.epoch) == (0, 1, 1, 7)


def test_a_batch_that_was_taken_before_is_skipped() -> None:
    topic = topic_of(*FIVE)

    topic.apply_append(appended(2, 3), place)

    assert (topic.head, topic.live, topic.losses) == (5, 5, [])


def test_a_jump_in_seqs_is_a_loss_with_the_given_cause() -> None:
    topic = topic_of(*FIVE)

    topic.apply_append(appended(9, 1), place, Cause.DAMAGE)

    assert topic.losses == [LossRange(6, 8, Cause.DAMAGE)]
    assert live_seqs(topic) == [1, 2, 3, 4, 5, 9]


# Floors.


def test_floors_from_the_log_never_pass_the_head_and_never_fall() -> None:
    topic = topic_of(*FIVE)

    topic.apply_floor(FloorMoved(1, evict=2, earliest=3, expiry=99))
    topic.apply_floor(FloorMoved(1, evict=1, earliest=1, expiry=1))

    assert (topic.evict_floor, topic.expiry_floor) == (2, 5)
    assert (topic.live, topic.earliest) == (0, 6)


# Deletes.


def test_a_delete_never_reaches_past_its_bound() -> None:
    topic = topic_of(*[Row(tag="a")] * 5)

    assert topic.apply_delete(deletion(topic, match=TagMatch(b"a", False), bound=2)) == 2
    assert topic.apply_delete(deletion(topic, seqs=(3, 4), bound=3)) == 1
    assert topic.apply_delete(deletion(topic, before=99, bound=4)) == 1
    assert live_seqs(topic) == [5]


def test_before_seq_narrows_a_tag_delete() -> None:
    topic = topic_of(*[Row(tag="a")] * 5)

    topic.apply_delete(deletion(topic, before=3, match=TagMatch(b"a", False)))

    assert live_seqs(topic) == [3, 4, 5]
    assert topic.delete_floor == 0


def test_deleting_moves_the_delete_floor_and_never_the_evict_floor() -> None:
    topic = topic_of(*FIVE)

    topic.apply_delete(deletion(topic, before=4))

    assert (topic.delete_floor, topic.evict_floor, topic.evict_earliest) == (3, 0, 1)
    assert topic.earliest == 4


def test_a_tag_delete_at_the_front_moves_the_earliest_seq() -> None:
    topic = topic_of(Row(tag="a"), Row(tag="a"), Row(), Row(tag="a"))

    topic.apply_delete(deletion(topic, match=TagMatch(b"a", False)))

    assert (topic.earliest, topic.delete_floor) == (3, 0)


@given(
    count=st.integers(1, 20),
    before=st.sets(st.integers(1, 20)),
    seqs=st.sets(st.integers(1, 25), min_size=1),
    bound=st.integers(0, 20),
)
def test_a_delete_of_seqs_changes_nothing_until_its_steps_are_performed(
    count: int, before: set[int], seqs: set[int], bound: int
) -> None:
    topics = [topic_of(*[Row(size=seq) for seq in range(count)]) for _ in range(3)]
    for topic in topics:
        topic.apply_delete(deletion(topic, seqs=(*before, 99)))
    waiting, changed, applied = topics
    entry = deletion(applied, seqs=tuple(seqs), bound=bound)
    removed = applied.apply_delete(entry)

    change = changed.deleting(entry)

    assert change is not None
    assert (_state(changed), change[1]) == (_state(waiting), removed)
    perform(change[0])
    assert _state(changed) == _state(applied)


def _state(topic: Topic) -> object:
    spans = [(one.first, one.start, one.count, one.live, one.bytes) for one in topic.spans]
    return spans, live_seqs(topic), topic.live, topic.bytes, topic.earliest, topic.removals


def test_only_a_delete_of_seqs_without_groups_is_one_step() -> None:
    topic = topic_of(*[Row(tag="a")] * 5)

    assert topic.deleting(deletion(topic, before=3)) is None
    assert topic.deleting(deletion(topic, before=3, seqs=(1,))) is None
    assert topic.deleting(deletion(topic, match=TagMatch(b"a", False), seqs=(1,))) is None
    assert topic.deleting(deletion(topic, seqs=(1,))) is not None
    topic.queue.use_groups(True)
    assert topic.deleting(deletion(topic, seqs=(1,))) is None


# Losses.


def test_neighbouring_losses_of_one_cause_are_one() -> None:
    topic = topic_of()

    topic.lose(1, 3, Cause.LOST)
    topic.lose(4, 6, Cause.LOST)
    topic.lose(7, 8, Cause.DAMAGE)

    assert topic.losses == [LossRange(1, 6, Cause.LOST), LossRange(7, 8, Cause.DAMAGE)]
    assert topic.head == 8


def test_a_loss_below_another_leaves_what_lies_between_alone() -> None:
    topic = topic_of(*[Row()] * 9)

    topic.drop_unreadable(8, 8, Cause.DAMAGE)
    topic.drop_unreadable(2, 2, Cause.DAMAGE)

    assert topic.losses == [LossRange(2, 2, Cause.DAMAGE), LossRange(8, 8, Cause.DAMAGE)]


def test_a_loss_told_twice_is_one_loss() -> None:
    topic = topic_of(*[Row()] * 9)

    for _ in range(2):
        topic.drop_unreadable(2, 3, Cause.DAMAGE)
        topic.drop_unreadable(7, 8, Cause.DAMAGE)

    assert topic.losses == [LossRange(2, 3, Cause.DAMAGE), LossRange(7, 8, Cause.DAMAGE)]


def test_burying_counts_no_record_twice() -> None:
    topic = topic_of(*FIVE)
    topic.apply_delete(deletion(topic, seqs=(3,)))

    topic.drop_unreadable(2, 4, Cause.DAMAGE)

    assert live_seqs(topic) == [1, 5]
    assert (topic.live, topic.bytes) == (2, 2)


# Idempotency keys.


def test_a_key_is_remembered_with_its_seqs() -> None:
    topic = topic_of(*FIVE)

    topic.apply_append(appended(6, [Row(ts=9), Row(ts=9)], key=b"k"), place)

    assert topic.keys == {b"k": (6, 7, 9)}


def test_keys_leave_with_their_window_oldest_first() -> None:
    topic = topic_of(idempotency_window_ms=100)
    for ts in (0, 50, 100):
        topic.apply_append(appended(topic.head + 1, [Row(ts=ts)], key=b"%d" % ts), place)

    topic.forget_keys(now_ms=101, keep_max=9)
    after_the_window = list(topic.keys)
    topic.forget_keys(now_ms=101, keep_max=1)

    assert after_the_window == [b"50", b"100"]
    assert list(topic.keys) == [b"100"]


def test_a_key_used_again_counts_as_new() -> None:
    topic = topic_of(idempotency_window_ms=10)
    topic.remember(b"old", 1, 1, 0)
    topic.remember(b"other", 2, 2, 5)
    topic.remember(b"old", 3, 3, 9)

    topic.forget_keys(now_ms=16, keep_max=9)

    assert topic.keys == {b"old": (3, 3, 9)}
