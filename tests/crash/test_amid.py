"""A topic lives on while a checkpoint absorbs it: whatever is done between any two of its
operations on files, a crash at any point keeps it. Every topic is `fsync`, so what was answered
must be there; half of the crashes come with the newest snapshot damaged, so that the spare counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from penstock.directory import snapshot_parts
from penstock.directory.segments import SegmentShelf
from penstock.directory.snapshot_parts import TopicPart
from penstock.engine import checkpoint
from penstock.engine.checkpoint import Checkpointer
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.engine.seal import Frozen
from penstock.engine.segment_rewrite import rewrite
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.topics.spans import Span
from penstock.topics.topic import Topic
from tests.support import rig

HISTORIES = 400 if rig.IS_FULL else 7
STATES = 4
NAMES = ("a", "b", "c")
BOUNDS = {"segment_max_events": 7, "segment_max_bytes": 1 << 20}
Shown = dict[str, Any]


def opened(fs: MemoryFilesystem) -> Log:
    return open_memory_log(fs, FakeClock(), **BOUNDS)


def shown(log: Log) -> Shown:
    """All that a reader and a repeated append can see, and what the topics count."""
    found: Shown = {}
    for info in log.topics():
        records: list[object] = []
        after = 0
        while True:
            page = log.read(info.name, after)
            gap = page.gap
            records += [] if gap is None else [(gap.first, gap.last, gap.reason)]
            records += [(record.seq, record.tag, record.data) for record in page.records]
            if page.caught_up:
                break
            after = page.next_seq
        topic = log.core.parts.handles[info.name].topic
        found[info.name] = (
            info.head_seq,
            info.earliest_seq,
            info.count,
            info.bytes,
            sorted(topic.keys),
            records,
        )
    return found


class Life:
    """One log, and a hand that acts on it between the operations of its checkpoints."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fs = MemoryFilesystem()
        self.log = opened(self.fs)
        self.acts: list[str] = []
        self.crashes: list[tuple[MemoryFilesystem, Shown]] = []
        self._number = 0
        self._is_busy = True
        for name in NAMES:
            self.log.create(name, durability="fsync")
        for _ in range(random.randrange(12)):
            self.act()
        self.fs.on_operation = self._between
        self._is_busy = False

    def act(self) -> None:
        random, log = self.random, self.log
        name = random.choice(NAMES)
        kind = random.choices(
            ["append", "tag", "before", "seqs", "cap", "drop"], [12, 2, 1, 2, 1, 1]
        )[0]
        head = log.topic(name).head_seq
        self.acts.append(f"{kind} {name}")
        if kind == "append":
            self._number += 1
            key = str(self._number) if random.random() < 0.3 else None
            datas = [self._number] * random.choice([1, 1, 3, 20])
            log.append(name, datas, tag=random.choice(["x", "y", None]), idempotency_key=key)
        elif kind == "tag":
            log.delete(name, tag="x")
        elif kind == "before":
            log.delete(name, before_seq=random.randint(1, head + 1))
        elif kind == "seqs" and head:
            log.delete(name, seqs=random.choices(range(1, head + 1), k=3))
        elif kind == "cap":
            log.create(name, durability="fsync", cap_records=random.choice([3, 10, 1000]))
        elif kind == "drop":
            log.drop(name)
            log.create(name, durability="fsync")

    def _between(self, index: int, kind: str, path: str) -> None:
        """Before an operation of the checkpoint, not of what is done here."""
        if self._is_busy or path.startswith(f"{ROOT}/wal"):
            return
        self._is_busy = True
        try:
            if self.random.random() < 0.25:
                self.act()
            if self.random.random() < 0.08:
                # The log itself is not touched by these: they are copies of the disk.
                truth = shown(self.log)
                self.crashes += [(state, truth) for state in self.fs.crash_states(STATES)]
        finally:
            self._is_busy = False

    def checkpoint(self) -> None:
        self.acts.append("checkpoint")
        self.log.checkpoint(everything=self.random.random() < 0.7)
        self.acts.append("over")


def differences(life: Life) -> list[str]:
    """Crashes after which the log was not what it had been."""
    found: list[str] = []
    random = life.random
    life._is_busy = True
    truth = shown(life.log)
    ends = [(state, truth) for state in life.fs.crash_states(STATES)]
    for state, then in [*life.crashes, *ends]:
        snapshots = [f"{ROOT}/meta/{name}" for name in state.list(f"{ROOT}/meta")]
        snapshots = [path for path in snapshots if re.search(r"snapshot-\d+\.bin$", path)]
        if len(snapshots) > 1 and random.random() < 0.5:
            state.corrupt(max(snapshots), 40)
        try:
            again = opened(state)
            now = shown(again)
            again.checkpoint(everything=True)
            later = shown(again)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            found.append(f"{type(error).__name__}: {error}")
            continue
        if now != then:
            found.append(f"{now}\n    instead of {then}")
        elif later != then:
            found.append(f"after a checkpoint {later}\n    instead of {then}")
    return found


def explore(random: Random, histories: int, *, at_first: bool = False) -> tuple[int, list[str]]:
    """How many crashes were looked at, and what was wrong."""
    crashes = 0
    wrong: list[str] = []
    for _ in range(histories):
        life = Life(random)
        try:
            for _ in range(random.choice([1, 2, 4])):
                life.checkpoint()
            found = differences(life)
        except Exception as error:  # noqa: BLE001 - the log found it before the crash did
            found = [f"{type(error).__name__}: {error}"]
        crashes += len(life.crashes) + STATES
        wrong += [f"{one}\n    {', '.join(life.acts)}" for one in found[:1]]
        if wrong and at_first:
            break
    return crashes, wrong


@pytest.mark.timeout(3_600)
def test_what_is_done_amid_a_checkpoint_survives_any_crash(report: rig.Report) -> None:
    seed = rig.new_seed()

    crashes, wrong = explore(Random(seed), HISTORIES)

    report(f"amid checkpoints: {HISTORIES} histories, {crashes} crashes, seed {seed}")
    assert not wrong, "\n".join([f"seed {seed}, {len(wrong)} wrong:", *wrong[:3]])


# A rig that catches nothing proves nothing.


def head_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head and the position of a later moment than the tail."""
    seal, completed = checkpoint.seal, snapshot_parts.completed
    topics: list[Topic] = []

    def sealed(handle: Handle, *more: Any) -> list[Span]:
        topics.append(handle.topic)
        return seal(handle, *more)

    def late(part: TopicPart, tail: list[Span]) -> TopicPart:
        now = topics[-1]
        whole = completed(part, tail)
        return msgspec.structs.replace(whole, head=now.head, position=now.position)

    monkeypatch.setattr(checkpoint, "seal", sealed)
    monkeypatch.setattr(snapshot_parts, "completed", late)


def positions_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay begins where the checkpoint ended, not where it began."""
    absorb, body = Checkpointer._absorb, checkpoint.SnapshotBody
    running: list[Checkpointer] = []

    def absorbed(self: Checkpointer, *more: Any) -> Any:
        running.append(self)
        return absorb(self, *more)

    def late(next_topic_id: int, positions: Any, parts: list[TopicPart]) -> Any:
        return body(next_topic_id, running[-1]._positions(), parts)

    monkeypatch.setattr(Checkpointer, "_absorb", absorbed)
    monkeypatch.setattr(checkpoint, "SnapshotBody", late)


def copies_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is frozen is not a copy, and changes with the topic."""
    monkeypatch.setattr(Span, "copy", lambda self: self)


def rewritten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are made anew after their topic was captured: no snapshot names them."""
    seal = checkpoint.seal

    def sealed(handle: Handle, shelf: SegmentShelf, frozen: Frozen) -> list[Span]:
        made = seal(handle, shelf, frozen)
        rewrite(handle, shelf, dead_share=0.5, on_damage=lambda error: None)
        return made

    monkeypatch.setattr(checkpoint, "rewrite", lambda *arguments, **more: 0)
    monkeypatch.setattr(checkpoint, "seal", sealed)


def tail_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part without the segments that its tail became."""
    monkeypatch.setattr(snapshot_parts, "completed", lambda part, tail: part)


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    head_late,
    positions_late,
    copies_shared,
    rewritten_last,
    tail_forgotten,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    report: rig.Report,
) -> None:
    seed = rig.new_seed()
    mutant(monkeypatch)

    crashes, wrong = explore(Random(seed), 1000, at_first=True)

    assert wrong, f"seed {seed}: {mutant.__name__} survived {crashes} crashes"
    report(f"amid checkpoints, {mutant.__name__}: caught by crash {crashes}, {wrong[0][:80]}")
