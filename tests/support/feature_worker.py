"""A process that pushes events to feature tables, to be killed. It says on a pipe what it does.

Before each push it says the numbers of the events and whether the push is to be synced, and again
when the push is acknowledged. Now and then it says up to which seq the log calls a topic synced.
"""

from __future__ import annotations

import contextlib
import os
import threading
import traceback
from random import Random
from typing import Any

import penstock
from penstock import PenstockError, Settings
from penstock.engine.engine import Log
from penstock.features.store import FeatureStore
from tests.support import feature_mutants, feature_plans
from tests.support.writers import Pipe, filesystem

BACK = 12  # so many events are pushed again, those of an earlier life too


class Numbers:
    """Which events were given to a push already. Safe from several threads."""

    def __init__(self, following: int) -> None:
        self._lock = threading.Lock()
        self._next = following

    def take(self, count: int, back: int) -> range:
        """So many new events, behind some that were pushed before or are just being pushed."""
        with self._lock:
            first = max(0, self._next - back)
            self._next += count
            return range(first, self._next)


class Pusher(threading.Thread):
    """Pushes events of one type. Others may push the same ones."""

    def __init__(
        self, log: Log, pipe: Pipe, event: str, numbers: Numbers, order: dict[str, Any]
    ) -> None:
        super().__init__(daemon=True)
        self._log = log
        self._pipe = pipe
        self._store: FeatureStore = log.core.features.store
        self._event = event
        self._numbers = numbers
        self._random = Random(f"{order['seed']} {order['life']} {event} {self.name}")
        self._may_fail = bool(order.get("cut"))

    def run(self) -> None:
        try:
            while True:
                self.step()
        except (PenstockError, OSError):
            if not self._may_fail:  # after a power cut every call fails, and rightly
                self._give_up()
        except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
            self._give_up()

    def step(self) -> None:
        chance, event = self._random, self._event
        count, back = chance.choice((0, 1, 1, 2, 5, 20)), chance.choice((0, 0, 1, BACK))
        numbers = self._numbers.take(count, back)
        if not numbers:
            return
        sync = chance.choice((None, None, "per_event"))
        is_safe = sync is not None or event == "P"
        self._pipe.say("push", event, numbers.start, numbers.stop)
        events = [feature_plans.event_of(event, number) for number in numbers]
        done = self._store.push(event, events, sync=sync)  # type: ignore[arg-type]
        seqs = (done.first_seq, done.last_seq) if done.count else (0, -1)
        self._pipe.say("pushed", event, numbers.start, numbers.stop, is_safe, *seqs)
        draw = chance.random()
        if draw < 0.1:
            topic = feature_plans.EVENTS[event]
            self._pipe.say("synced", event, self._store._log.watermarks(topic)[2])
        elif draw < 0.3:
            table = "T" if event == "E" else "Paid"
            self._store.get(table, chance.choice(feature_plans.keys_of(table)))

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            self._pipe.say("failed", traceback.format_exc()[-3000:])
        os._exit(3)


def run(order: dict[str, Any], fds: list[int]) -> None:
    """The life of one process. `order` is what the rig wants, `fds[0]` the pipe."""
    pipe = Pipe(fds[0])
    feature_plans.shrink_memory()
    feature_mutants.apply(order.get("mutant"))
    try:
        settings = Settings(**order["settings"])
        log = penstock.open(order["path"], settings=settings, fs=filesystem(order))
        store: FeatureStore = log.core.features.store
        if store.version == 0:
            store.register(feature_plans.document())
    except Exception as error:  # noqa: BLE001 - reported to the parent, which judges it
        if not (order.get("cut") and isinstance(error, (PenstockError, OSError))):
            pipe.say("failed", traceback.format_exc()[-3000:])
        os._exit(3)
    numbers = {event: Numbers(order["next"][event]) for event in feature_plans.EVENTS}
    pushers = [Pusher(log, pipe, event, numbers[event], order) for event in ("E", "E", "P")]
    pipe.say("ready")
    for pusher in pushers:
        pusher.start()
    threading.Event().wait(3600.0)
