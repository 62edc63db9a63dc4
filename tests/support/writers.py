"""A process full of writers, to be killed. It says on a pipe what it does; see `oracle`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import threading
import traceback
from typing import Any

import penstock
from penstock import Log, PenstockError, Settings
from tests.support import cuts, mutants
from tests.support.oracle import CAPS, TOPICS, WINDOW, payloads

_NEVER_S = 3600.0


class Pipe:
    """Says messages, each with one write that a kill cannot tear (they are below PIPE_BUF)."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def say(self, *message: object) -> None:
        os.write(self._fd, json.dumps(message).encode() + b"\n")


class Writer(threading.Thread):
    """One thread with its own tags, keys and random choices."""

    def __init__(self, log: Log, pipe: Pipe, name: str, order: dict[str, Any]) -> None:
        super().__init__(name=name, daemon=True)
        self.log = log
        self.pipe = pipe
        self.random = random.Random(f"{order['seed']}.{order['life']}.{name}")
        self.is_stopping = threading.Event()
        self._life = order["life"]
        self._may_fail = bool(order.get("cut"))
        self._numbers = itertools.count()

    def run(self) -> None:
        try:
            while not self.is_stopping.is_set():
                self.step()
        except PenstockError:
            if not self._may_fail:  # after a power cut every call fails, and rightly
                self._give_up()
        except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
            self._give_up()

    def step(self) -> None:
        raise NotImplementedError

    def append(self, topic: str, count: int, *, tag: str | None = None, keyed: bool) -> None:
        operation = f"{self.name}.{next(self._numbers)}"
        uid = f"{self._life}.{operation}"
        key = f"key-{uid}" if keyed else None
        self.pipe.say("append", operation, topic, uid, count, tag, key)
        done = self.log.append(topic, payloads(uid, count), tag=tag, idempotency_key=key)
        self.pipe.say("appended", operation, done.first_seq, done.last_seq)

    def delete(self, topic: str, tag: str) -> None:
        operation = f"{self.name}.{next(self._numbers)}"
        self.pipe.say("delete", operation, topic, tag)
        done = self.log.delete(topic, tag=tag)
        self.pipe.say("deleted", operation, done.deleted)

    def tag(self) -> str:
        return f"{self.name}-{self.random.randrange(3)}"

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.say("failed", traceback.format_exc()[-3000:])
        os._exit(3)


class Mixed(Writer):
    """Singles, batches, tags, keys and deletes in the topics it is given."""

    def __init__(
        self, log: Log, pipe: Pipe, name: str, order: dict[str, Any], topics: tuple[str, ...]
    ) -> None:
        super().__init__(log, pipe, name, order)
        self.topics = topics
        self.pause_s = 0.0

    def step(self) -> None:
        topic = self.random.choice(self.topics)
        draw = self.random.random()
        if draw < 0.06:
            self.delete(topic, self.tag())
        else:
            count = 1 if draw < 0.6 else self.random.choice((2, 3, 9))
            tag = self.tag() if self.random.random() < 0.5 else None
            self.append(topic, count, tag=tag, keyed=self.random.random() < 0.3)
        if self.pause_s:
            self.is_stopping.wait(self.pause_s)


class Unsynced(Mixed):
    """The same without waiting for a disk, but now and then for everything at once."""

    def step(self) -> None:
        self.pause_s = 0.0004  # else it would bury the others, and the reading, in records
        super().step()
        if self.random.random() < 0.03:
            self.log.sync()
            self.pipe.say("synced", self.name)


class Capped(Writer):
    """Appends to the topic with a cap, and changes the cap."""

    def step(self) -> None:
        if self.random.random() < 0.15:
            cap = self.random.choice(CAPS)
            self.pipe.say("cap", WINDOW, cap)
            self.log.create(WINDOW, **{**TOPICS[WINDOW], "cap_records": cap})
            self.pipe.say("capped", WINDOW)
        else:
            self.append(WINDOW, self.random.choice((1, 1, 2, 7)), keyed=False)


def run(order: dict[str, Any], fds: list[int]) -> None:
    """The life of one process. `order` is what the rig wants, `fds[0]` the pipe."""
    pipe = Pipe(fds[0])
    log = None
    try:
        mutants.apply(order.get("mutant"))
        log = penstock.open(
            order["path"], settings=Settings(**order["settings"]), fs=filesystem(order)
        )
        known = {info.name for info in log.topics()}
        for topic, config in TOPICS.items():
            if topic not in known:
                log.create(topic, **config)
            pipe.say("created", topic)
    except Exception as error:  # noqa: BLE001 - reported to the parent, which judges it
        if not (order.get("cut") and isinstance(error, (PenstockError, OSError))):
            pipe.say("failed", traceback.format_exc()[-3000:])
        os._exit(3)
    writers: list[Writer] = [
        Mixed(log, pipe, "a", order, ("orders",)),
        Mixed(log, pipe, "b", order, ("orders", "payments")),
        Unsynced(log, pipe, "c", order, ("clicks",)),
        Mixed(log, pipe, "d", order, ("payments", "clicks")),
        Capped(log, pipe, "e", order),
    ]
    pipe.say("ready")
    for writer in writers:
        writer.start()
    threading.Event().wait(order.get("close_after_s") or _NEVER_S)
    for writer in writers:
        writer.is_stopping.set()
    for writer in writers:
        writer.join()
    log.close()
    pipe.say("closed")


def filesystem(order: dict[str, Any]) -> cuts.CutFilesystem | None:
    """The boot that the order says, and the cut; None: the real one."""
    if "boot" not in order:
        return None
    cut = order.get("cut")
    on_sync = cuts.CutAtSync(**cut) if cut and cut.get("nth") else None
    return cuts.CutFilesystem(order["boot"], on_sync)
