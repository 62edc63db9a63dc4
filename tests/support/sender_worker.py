"""A producer that is there to be killed: it appends numbered rows and writes down what a flush
has returned for."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from penstock.errors import Backpressure
from penstock.sender.sender import Sender

ROWS_MAX = 5  # of a topic in one flush
PAUSE_S_MAX = 0.004


class Order(msgspec.Struct):
    """What one process is told to do."""

    conf: str
    journal: str
    name: str
    topics: list[str]
    seed: str
    first: int  # the number of its first row


class Flushed(msgspec.Struct, array_like=True, frozen=True):
    """A line of the journal: rows that are past a flush."""

    name: str
    topic: str
    first: int
    last: int


def read_journal(path: Path) -> list[Flushed]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [msgspec.json.decode(line, type=Flushed) for line in lines if line]


class Stop:
    """Set by a signal, which may come while the main thread holds any lock: so it has none."""

    def __init__(self) -> None:
        self._is_set = False
        self._pause = threading.Event()  # never set
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, *_: object) -> None:
        self._is_set = True

    def wait(self, pause_s: float) -> bool:
        self._pause.wait(pause_s)
        return self._is_set


def main(text: str) -> None:
    order = msgspec.json.decode(text, type=Order)
    stop = Stop()
    with suppress(Backpressure), Sender(order.conf) as sender:  # no room at the end: not promised
        _produce(order, sender, stop)


def _produce(order: Order, sender: Sender, stop: Stop) -> None:
    journal = os.open(order.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    choose = random.Random(order.seed)
    number = order.first
    pending: list[Flushed] = []
    while not stop.wait(choose.choice((0, choose.uniform(0, PAUSE_S_MAX)))):
        for topic in choose.sample(order.topics, choose.randint(1, len(order.topics))):
            first = number
            for _ in range(choose.randint(1, ROWS_MAX)):
                filler = "x" * choose.choice((0, 10, 300, 3000))
                sender.append(topic, {"by": order.name, "n": number, "filler": filler})
                number += 1
            pending.append(Flushed(order.name, topic, first, number - 1))
        try:
            sender.flush()
        except Backpressure:
            continue  # the rows are kept, and the next flush takes them
        os.write(journal, b"".join(msgspec.json.encode(one) + b"\n" for one in pending))
        pending.clear()
