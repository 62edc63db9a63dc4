"""A process that uses a log while real signals, or another thread, raise exceptions in it.

    python -m tests.support.signal_rig DIRECTORY SEED signals|thread KIND INTERRUPTS [MUTANT]

Prints one line of JSON for each call before it begins, and one when it was acknowledged, then
`end`. The parent (`judge`) opens the directory afterwards and compares.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import queue
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock import Log, Settings
from penstock.engine import fsck
from penstock.errors import LogFailed
from penstock.storage.fs import OsFilesystem
from tests.support import interrupt_mutants
from tests.support.signal_points import AlarmTimeout, RaisedBySignal

HANG_S = 120  # a call that takes so long hangs; the process prints its stacks and ends
KINDS: dict[str, type[BaseException]] = {
    kind.__name__: kind for kind in (KeyboardInterrupt, RaisedBySignal, AlarmTimeout)
}
_ANY = tuple(KINDS.values())
VERBS = {"append": 10, "append_many": 2, "claim": 3, "ack": 3, "create": 1}  # how often
CAP = 20
TOPICS: dict[str, dict[str, Any]] = {
    "fsynced": {"durability": "fsync"},
    "written": {"durability": "disk"},
    "copies": {"durability": "disk"},
    "capped": {"durability": "fsync", "cap_records": CAP},
    "jobs": {"type": "queue", "durability": "fsync", "leases_durable": True},
}
_LATEST_S = 0.004  # an ordinary call takes less


# Where exceptions come from.


class Signals:
    """SIGALRM, at a random moment of a call."""

    def __init__(self, choose: random.Random, kind: type[BaseException]) -> None:
        self._choose = choose
        self._kind = kind
        self._is_armed = False
        self.count = 0
        signal.signal(signal.SIGALRM, self._handle)

    def arm(self) -> None:
        self._is_armed = True
        signal.setitimer(signal.ITIMER_REAL, self._choose.uniform(0.000_01, _LATEST_S))

    def disarm(self) -> None:
        self._is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_armed:
            self._is_armed = False
            self.count += 1
            raise self._kind("from a signal handler")


class OtherThread:
    """PyThreadState_SetAsyncExc, from a thread that waits a random while."""

    def __init__(self, choose: random.Random, kind: type[BaseException]) -> None:
        self._choose = choose
        self._kind = kind
        self._target = threading.get_ident()
        self._lock = threading.Lock()
        # Of C: the last exception may come late, while the next call is armed.
        self._armed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_armed = False
        self.count = 0
        threading.Thread(target=self._run, daemon=True).start()

    def arm(self) -> None:
        self._is_armed = True
        self._armed.put(None)

    def disarm(self) -> None:
        with self._lock:
            was_armed, self._is_armed = self._is_armed, False
        if not was_armed:
            for _ in range(1000):
                pass  # the exception was raised in the call, or is raised in this loop

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._armed.get()
            pause.wait(self._choose.uniform(0, _LATEST_S))
            with self._lock:
                if self._is_armed:
                    self._is_armed = False
                    self.count += 1
                    kind = ctypes.py_object(self._kind)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), kind)


# The process.


class User:
    """Calls one verb after the other and tells the parent."""

    def __init__(self, path: str, seed: int) -> None:
        self._path = path
        self._choose = random.Random(seed)
        self._number = 0
        self._jobs: list[Any] = []
        self.log = self._open()
        for topic, config in TOPICS.items():
            self.log.create(topic, **config)
        self.log.create_router("all", "written", "copies")

    def _open(self) -> Log:
        return penstock.open(
            self._path,
            settings=Settings(
                wal_shards=2, wal_file_bytes=64 << 10, sync_tick_ms=5, upkeep_interval_ms=20
            ),
        )

    def run(self, source: Signals | OtherThread, interrupts: int) -> None:
        while source.count < interrupts:
            self.step(source)

    def step(self, source: Signals | OtherThread | None) -> None:
        plan, verb = self._plan()
        say(plan)
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            if source is not None:
                source.arm()
            answer = verb()
            if source is not None:
                source.disarm()
        except _ANY:
            return
        except LogFailed as failure:
            if source is not None:
                with contextlib.suppress(*_ANY):
                    source.disarm()
            say({"failed": str(failure)})
            self.log.close()
            self.log = self._open()
            return
        finally:
            faulthandler.cancel_dump_traceback_later()
        if plan["verb"] == "claim":
            self._jobs += answer.jobs
            answer = None
        elif plan["verb"] == "append":
            answer = answer.first_seq
        elif plan["verb"] == "append_many":
            answer = [one.first_seq for one in answer]
        else:
            answer = None
        say({"done": plan["id"], "answer": answer})

    def _plan(self) -> tuple[dict[str, Any], Callable[[], Any]]:
        self._number += 1
        number, log = self._number, self.log
        (kind,) = self._choose.choices(list(VERBS), list(VERBS.values()))
        plan: dict[str, Any] = {"id": number, "verb": kind}
        if kind == "append":
            topic = self._choose.choice(("fsynced", "written", "capped", "jobs", "copies"))
            records = [f"{number}.{one}" for one in range(self._choose.choice((1, 1, 3)))]
            key = f"key-{number}" if self._choose.random() < 0.3 else None
            plan |= {"topic": topic, "records": records}
            return plan, lambda: log.append(topic, records, idempotency_key=key)
        if kind == "append_many":
            writes = [("fsynced", [f"{number}.0"]), ("written", [f"{number}.1", f"{number}.2"])]
            plan |= {"writes": writes}
            return plan, lambda: log.append_many(writes)
        if kind == "ack" and self._jobs:
            job = self._jobs.pop(0)
            plan |= {"seq": job.seq}
            return plan, lambda: log.ack("jobs", "w", [job])
        if kind == "create":
            plan |= {"topic": f"made-{number}"}
            return plan, lambda: log.create(f"made-{number}", durability="fsync")
        plan["verb"] = "claim"
        return plan, lambda: log.claim("jobs", "w", 2, lease_ms=600_000)

    def finish(self) -> None:
        """The log goes on without interrupts, then is closed or killed."""
        for _ in range(30):
            self.step(None)
        self.log.sync()
        say({"end": True})
        if self._choose.random() < 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        self.log.close()


def say(line: dict[str, Any]) -> None:
    os.write(1, (json.dumps(line) + "\n").encode())


def main(path: str, seed: int, how: str, kind: str, interrupts: int, mutant: str) -> None:
    def work() -> None:
        user = User(path, seed)
        source = Signals if how == "signals" else OtherThread
        user.run(source(random.Random(seed + 1), KINDS[kind]), interrupts)
        user.finish()

    with interrupt_mutants.mutated(mutant):
        if how == "signals":  # handlers run in the main thread
            work()
        else:
            worker = threading.Thread(target=work)
            worker.start()
            worker.join()


# The parent.


def judge(path: Path, lines: list[dict[str, Any]]) -> list[str]:
    """What is lost, doubled or half done."""
    wrong: list[str] = []
    report = fsck.check(OsFilesystem(), str(path))
    wrong += [f"fsck: {one.path}: {one.reason}" for one in report.problems if one.kind != "derived"]
    plans = {line["id"]: line for line in lines if "id" in line}
    answers = {line["done"]: line["answer"] for line in lines if "done" in line}
    wrong += [
        f"the log failed: {line['failed']}"
        for line in lines
        if "failed" in line and "interrupt" not in line["failed"]
    ]
    with penstock.open(path) as log:
        found = {name: _content(log, name, wrong) for name in TOPICS}
        names = set(log.core.catalogue.names())
    acked = {plan["seq"] for plan in plans.values() if plan["verb"] == "ack"}
    for number, plan in plans.items():
        is_done = number in answers
        if plan["verb"] == "create" and is_done and plan["topic"] not in names:
            wrong.append(f"topic {plan['topic']} was created and is gone")
        elif plan["verb"] == "ack" and is_done and plan["seq"] in found["jobs"]:
            wrong.append(f"job {plan['seq']} was acknowledged and is there")
        elif plan["verb"] == "append":
            wrong += _compare(plan, [(plan["topic"], plan["records"])], found, acked, is_done)
            if is_done:
                wrong += _seqs(plan["topic"], plan["records"], answers[number], found)
        elif plan["verb"] == "append_many":
            wrong += _compare(plan, plan["writes"], found, acked, is_done)
            if is_done:
                for (topic, records), first in zip(plan["writes"], answers[number], strict=True):
                    wrong += _seqs(topic, records, first, found)
    direct = {
        record
        for plan in plans.values()
        if plan["verb"] == "append" and plan["topic"] == "copies"
        for record in plan["records"]
    }
    copies = [data for data in found["copies"].values() if data not in direct]
    if copies != list(found["written"].values()):
        missing = set(found["written"].values()) - set(copies)
        wrong.append(f"copies differ: {len(copies)}, missing {sorted(missing)[:5]}")
    return wrong


def _content(log: Log, topic: str, wrong: list[str]) -> dict[int, str]:
    found: dict[int, str] = {}
    after = 0
    while True:
        page = log.read(topic, after)
        if page.gap is not None and topic != "capped":
            wrong.append(f"{topic}: a gap nobody caused: {page.gap}")
        found |= {record.seq: record.data for record in page.records}
        after = page.next_seq
        if page.caught_up:
            break
    if len(set(found.values())) < len(found):
        wrong.append(f"{topic}: records are doubled")
    if topic != "jobs" and sorted(found) != list(range(after - len(found) + 1, after + 1)):
        wrong.append(f"{topic}: seqs are missing below {after}")
    return found


def _compare(
    plan: dict[str, Any],
    writes: list[tuple[str, list[str]]],
    found: dict[str, dict[int, str]],
    acked: set[int],
    is_done: bool,
) -> list[str]:
    """Everything of a call is there, or, if nobody was told that it is, nothing."""
    there, gone = 0, []
    for topic, records in writes:
        data = set(found[topic].values())
        there += len(data.intersection(records))
        gone += [one for one in records if one not in data]
    if not gone or (not there and not is_done):
        return []
    if plan["verb"] == "append" and plan["topic"] == "capped":
        return []  # older ones may go; see _seqs
    if plan["verb"] == "append" and plan["topic"] == "jobs" and acked:
        return []  # jobs are deleted when they are done; see _seqs
    return [f"call {plan['id']} ({plan['verb']}, done: {is_done}): {gone} of {writes} are missing"]


def _seqs(
    topic: str, records: list[str], first: int, found: dict[str, dict[int, str]]
) -> list[str]:
    there = found[topic]
    newest = max(there, default=0)
    for seq, data in enumerate(records, first):
        seen = there.get(seq)
        if seen is None and topic == "capped" and seq <= newest - CAP:
            continue
        if seen is None and topic == "jobs":
            continue
        if seen != data:
            return [f"{topic} {seq} is {seen!r} instead of {data!r}"]
    return []


if __name__ == "__main__":
    _path, _seed, _how, _kind, _interrupts, _mutant = (*sys.argv, "")[1:7]
    main(_path, int(_seed), _how, _kind, int(_interrupts), _mutant)
