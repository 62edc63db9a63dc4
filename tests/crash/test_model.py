"""R12: a log does what its model does, whatever is asked of it and however it is stopped."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.codec.frame import decode_frame
from penstock.errors import RecordTooLarge, TopicFull
from penstock.testing.clock import FakeClock
from penstock.testing.crash import CrashChoices
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record, TopicConfig
from tests.support import states
from tests.support.model import Model, ModelTopic, Restart

EXAMPLES = 3_000 if os.environ.get("PENSTOCK_RIG") == "full" else 100
STEPS = 40

NAMES = ("a", "b", "c")
TAGS = ("x", "x:1", "x:2", "y", "*")
NODES = ("n1", "n2")
KEYS = ("k1", "k2", "k3")
CONSUMERS = ("c1", "c2")

names = st.sampled_from(NAMES)
classes = st.sampled_from(("ephemeral", "memory", "disk", "fsync"))
configs = st.fixed_dictionaries(
    {"durability": classes},
    optional={
        "cap_records": st.integers(1, 6),
        "cap_bytes": st.integers(20, 200),
        "ttl_ms": st.sampled_from((500, 2_000)),
        "discard": st.sampled_from(("old", "reject")),
        "idempotency_window_ms": st.sampled_from((1_000, 120_000)),
        "dedupe_node": st.booleans(),
    },
)
records = st.builds(
    Record,
    data=st.one_of(st.none(), st.integers(0, 9), st.text(max_size=40), st.just({"a": [1, "é"]})),
    tag=st.one_of(st.none(), st.sampled_from(TAGS)),
    node=st.one_of(st.none(), st.sampled_from(NODES)),
    meta=st.one_of(st.none(), st.just({"m": 1}), st.text(max_size=5)),
)
batches = st.lists(records, min_size=1, max_size=6)


def config_of(given: dict[str, Any]) -> TopicConfig:
    return TopicConfig(**given, durable=given["durability"] == "fsync")


def is_wanted(tag: str | None, pattern: str | None) -> bool:
    if pattern is None:
        return True
    if tag is None:
        return False
    return tag.startswith(pattern[:-1]) if pattern.endswith("*") else tag == pattern


def seqs_in(frames: bytes) -> list[int]:
    found, at = [], 0
    while at < len(frames):
        frame, at = decode_frame(frames, at)
        found.append(frame.seq)
    return found


class LogMachine(RuleBasedStateMachine):
    """Every rule does the same to the log and to the model, and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.fs = MemoryFilesystem()
        self.model = Model()
        self.tiers: dict[str, Any] = {}

    @initialize(shards=st.sampled_from((1, 1, 2)), kept=st.sampled_from((None, None, 0, 1)))
    def start(self, shards: int, kept: int | None) -> None:
        self.model = Model(shards)
        if kept is not None:
            self.tiers = {"cold_dir": "/cold", "hot_retain_segments": kept}
        self._open()

    # Topics.

    @rule(name=names, given=configs)
    def create(self, name: str, given: dict[str, Any]) -> None:
        info = self.log.create(name, **given)

        config = config_of(given)
        assert info.config == config
        held = self.model.topics.get(name)
        if held is None:
            self.model.create(name, info.epoch, config)
            self.model.synced(name)
        elif held.config != config:
            if config.durability == "ephemeral" and not held.is_ephemeral:
                self.model.sync_all()  # what is on disk stays on disk
            held.configure(config)
            self.model.synced(name)

    @rule(name=names)
    def drop(self, name: str) -> None:
        was_there = self.log.drop(name)

        assert was_there == (name in self.model.topics)
        if was_there:
            self.model.synced(name)
            del self.model.topics[name]

    # Records.

    @rule(name=names, batch=batches, key=st.one_of(st.none(), st.none(), st.sampled_from(KEYS)))
    def append(self, name: str, batch: list[Record], key: str | None) -> None:
        held = self._made(name)
        earlier = held.seen(key, self.clock.now_ms()) if key else None
        vague = held.vague.pop(key, None) if key else None
        is_full = earlier is None and not held.fits(batch)
        try:
            answer = self.log.append(name, batch, idempotency_key=key)
        except (TopicFull, RecordTooLarge):
            assert is_full
            return

        if vague is not None and key and answer.deduped:
            held.keys[key], earlier = vague, vague[:2]
        assert earlier is not None or not is_full, ("a full topic took more", answer)
        if earlier is not None:
            assert (answer.deduped, answer.first_seq, answer.last_seq) == (True, *earlier), answer
            return
        span = held.append(batch, self.clock.now_ms(), key)
        assert (answer.deduped, answer.first_seq, answer.last_seq) == (False, *span), answer
        if held.config.durability == "fsync":
            self.model.synced(name)

    @rule(name=names, data=st.data())
    def delete(self, name: str, data: st.DataObject) -> None:
        held = self.model.topics.get(name)
        if held is None:
            return
        held.expire(self.clock.now_ms())
        seqs = st.integers(1, held.head + 2)
        what = data.draw(
            st.one_of(
                st.fixed_dictionaries({"before_seq": seqs}),
                st.fixed_dictionaries({"tag": st.sampled_from(TAGS[:4])}),
                st.fixed_dictionaries({"prefix": st.sampled_from(("x", "x:", ""))}),
                st.fixed_dictionaries({"tag": st.just("x"), "before_seq": seqs}),
                st.fixed_dictionaries(
                    {"seqs": st.lists(st.sampled_from([1, *held.live]), min_size=1, max_size=4)}
                ),
            )
        )
        asked = dict(what)
        if "prefix" in asked:
            asked["tag"] = ("tag", "Glob", asked.pop("prefix") + "*")

        answer = self.log.delete(name, **asked)

        assert answer.deleted == held.delete(**what), what
        self.model.synced(name)

    @rule(
        name=names,
        at=st.integers(-6, 6),
        limit=st.integers(1, 8),
        node=st.one_of(st.none(), st.sampled_from(NODES), st.just(list(NODES))),
        tag=st.one_of(st.none(), st.none(), st.sampled_from(("x", "x*", "x:*", "y", "*"))),
        is_stale=st.sampled_from((False, False, False, True)),
    )
    def read(
        self,
        name: str,
        at: int,
        limit: int,
        node: str | list[str] | None,
        tag: str | None,
        is_stale: bool,
    ) -> None:
        held = self.model.topics.get(name)
        if held is None:
            return
        held.expire(self.clock.now_ms())
        anchors = [0, held.floor, held.head, held.earliest]
        after = max(0, anchors[at % 4] + at)
        epoch = held.epoch - is_stale

        page = self.log.read(name, after, limit, node=node, tag=tag, epoch=epoch)
        frames = self.log.read_frames(name, after, limit, node=node, tag=tag, epoch=epoch)

        gap = held.gap_at(held.head + 1 if is_stale else after)
        note(f"{name} after {after}: {page}, expected gap {gap}")
        found = page.gap and (page.gap.first, page.gap.last, page.gap.reason)
        if page.gap is not None and gap is not None and gap[2] == "lost":
            gap = (gap[0], min(gap[1], page.gap.last), gap[2])  # two losses are two gaps
        assert found == gap, (found, gap)
        start = after if gap is None else held.floor if gap[2] == "recreated" else gap[1]
        hidden = [node] if isinstance(node, str) else list(node or ())
        shown = [
            fact.as_read()
            for seq, fact in held.live.items()
            if seq > start
            and not (held.config.dedupe_node and fact.record.node in hidden)
            and is_wanted(fact.record.tag, tag)
        ]
        assert seqs_in(frames.frames) == [record.seq for record in page.records]
        assert (frames.gap, frames.next_seq) == (page.gap, page.next_seq)
        assert page.records == shown[: len(page.records)]
        assert len(page.records) <= limit
        rest = shown[len(page.records) :]
        # It stops early only for its limit, or where the next page must begin with a gap.
        assert page.next_seq >= max([start, *(record.seq for record in page.records)])
        assert not rest or page.next_seq < rest[0].seq
        if rest and len(page.records) < limit:
            assert held.told.past(page.next_seq).pairs[0][0] <= rest[0].seq
        assert page.caught_up == (page.next_seq >= held.head)
        assert page.caught_up or page.next_seq > after or page.gap is not None

    @rule(name=names, back_ms=st.sampled_from((-1, 0, 1, 399, 400, 401, 3_000)))
    def seek(self, name: str, back_ms: int) -> None:
        held = self.model.topics.get(name)
        if held is None:
            return
        held.expire(self.clock.now_ms())
        ts = self.clock.now_ms() - back_ms

        after = self.log.seek(name, ts)

        # Dead records count too, but nobody can tell where those were that are gone for good.
        earlier = [seq for seq, fact in held.live.items() if fact.ts < ts]
        later = [seq for seq, fact in held.live.items() if fact.ts >= ts]
        assert max(earlier, default=0) <= after < min(later, default=held.head + 1)
        assert after >= held.floor
        assert later or after == held.head

    # Consumers.

    @rule(name=names, consumer=st.sampled_from(CONSUMERS), back=st.integers(0, 9))
    def move_position(self, name: str, consumer: str, back: int) -> None:
        held = self.model.topics.get(name)
        if held is None:
            return
        held.expire(self.clock.now_ms())
        seq = max(0, held.head - back)

        moved = self.log.move_position(name, consumer, seq)

        held.positions[consumer] = (seq, self.clock.now_ms())
        self.model.synced(name)
        assert (moved.name, moved.seq, moved.epoch) == (consumer, seq, held.epoch)

    @rule(name=names, consumer=st.sampled_from(CONSUMERS))
    def drop_position(self, name: str, consumer: str) -> None:
        held = self.model.topics.get(name)
        if held is None:
            return

        assert self.log.drop_position(name, consumer) == (consumer in held.positions)
        if held.positions.pop(consumer, None) is not None:
            self.model.synced(name)

    # Time and housekeeping.

    @rule(ms=st.sampled_from((1, 400, 700, 3_000, 130_000)))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def upkeep(self) -> None:
        self._expire()
        self.log.upkeep()

    @rule(everything=st.booleans())
    def checkpoint(self, everything: bool) -> None:
        self.log.checkpoint(everything=everything)

    @rule()
    def compact(self) -> None:
        self.log.compact()

    @precondition(lambda self: self.tiers)
    @rule()
    def relocate(self) -> None:
        self.log.relocate()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.model.sync_all()

    # Ends.

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self._open()
        self._settle("close")

    @rule()
    def kill(self) -> None:
        self.fs = self.fs.kill()
        self._open()
        self._settle("kill")

    @rule(seed=st.integers(0, 1 << 20))
    def cut_power(self, seed: int) -> None:
        self.fs = self.fs.power_cut(CrashChoices(seed))
        self._open()
        self._settle("cut")

    # What always holds.

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def numbers_agree(self) -> None:
        self._expire()
        infos = {info.name: info for info in self.log.topics()}
        assert infos.keys() == self.model.topics.keys()
        for name, held in self.model.topics.items():
            info = infos[name]
            found = (info.head_seq, info.earliest_seq, info.count, info.bytes, info.epoch)
            assert found == (held.head, held.earliest, len(held.live), held.bytes, held.epoch), (
                found,
                held,
            )
            assert info.config == held.config
            now_ms = self.clock.now_ms()
            assert [
                (one.name, one.seq, one.ts, one.lag_records, one.lag_ms, one.head_seq)
                for one in self.log.positions(name)
            ] == [
                (consumer, seq, ts, *held.lag(seq, now_ms), held.head)
                for consumer, (seq, ts) in sorted(held.positions.items())
            ]

    @rule()
    def look(self) -> None:
        self._expire()
        wrong = self.model.objections(states.see(self.log), "close")
        assert not wrong, wrong
        assert self.fs.synced_after_failure == 0

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()

    # Inside.

    def _open(self) -> None:
        bounds = states.settings(self.model.shards, **self.tiers)
        self.log = states.open_log(self.fs, self.clock, bounds)
        assert self.log.damage == []
        assert self.log.failed is None

    def _settle(self, restart: Restart) -> None:
        self._expire()
        self.model.settle(states.see(self.log), restart)

    def _expire(self) -> None:
        for held in self.model.topics.values():
            held.expire(self.clock.now_ms())

    def _made(self, name: str) -> ModelTopic:
        if name not in self.model.topics:
            info = self.log.create(name)
            self.model.create(name, info.epoch, config_of({"durability": "disk"}))
            self.model.synced(name)
        return self.model.topics[name]


def test_a_log_does_what_its_model_does() -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
