"""A worker that is there to be hurt: it claims, works and settles, and writes each call down.

Before a call a line says what is asked, after it another what was answered, each with the
monotonic time, which all processes of a machine share. A call without an answer is unknown.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import penstock
from penstock.errors import ConnectionFailed, PenstockError, UsageError
from penstock.types import Claimed, Job, Settled

T = TypeVar("T")

TIMEOUT_S = 300.0
PAUSE_S = 0.01
ACKS_MAX = 20
_encode = msgspec.json.Encoder().encode


class Order(msgspec.Struct):
    """What one worker is told to do. The shares are of the jobs it gets."""

    home: str
    name: str
    node: str
    seed: str
    leases_ms: dict[str, int]  # by queue
    most: int = 6
    work_s: float = 0.03  # at the longest
    poison: int = 0  # jobs whose number this divides are never done
    dropped: float = 0.03
    given_back: float = 0.1
    extended: float = 0.3


def journal_of(home: Path) -> Path:
    return home / "journal"


def find_server(home: Path) -> tuple[int, str] | None:
    """The number of the server that lives now, and where; see `Victim.spawn`."""
    for path in home.glob("port-*"):
        life = path.name.removeprefix("port-")
        try:
            if life.isdecimal():
                return int(life), f"http://{path.read_text(encoding='ascii')}"
        except FileNotFoundError:
            continue
    return None


class Worker:
    """One process."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._choose = random.Random(order.seed)
        self._pause = threading.Event()
        self._calls = itertools.count(1)
        self._life = 0
        self._client: penstock.Client | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._journal = os.open(journal_of(Path(order.home)), flags, 0o600)

    def run(self) -> None:
        while True:
            self._work(self._choose.choice(sorted(self._order.leases_ms)))

    def _work(self, topic: str) -> None:
        order, choose = self._order, self._choose
        most = choose.randint(1, order.most)
        claimed = self._call(
            "claim", topic, [], lambda client: client.claim(topic, order.node, most, wait_s=0.2)
        )
        hand: list[Job] = []
        back: list[Job] = []
        for job in claimed.jobs if claimed is not None else ():
            is_poison = bool(order.poison) and job.data["n"] % order.poison == 0
            if choose.random() < order.dropped:
                continue
            (back if is_poison or choose.random() < order.given_back else hand).append(job)
        if back:
            delay_ms = choose.choice((0, 0, 50))
            self._call(
                "nack",
                topic,
                back,
                lambda client: client.nack(topic, order.node, back, delay_ms=delay_ms),
            )
        if not hand:
            return
        self._pause.wait(choose.uniform(0, order.work_s))
        if choose.random() < order.extended:
            lease_ms = order.leases_ms[topic]
            self._call(
                "extend",
                topic,
                hand,
                lambda client: client.extend(topic, order.node, hand, lease_ms=lease_ms),
            )
            self._pause.wait(choose.uniform(0, order.work_s))
        together = choose.random() < 0.5
        for jobs in [hand] if together else [[job] for job in hand]:
            self._ack(topic, jobs)

    def _ack(self, topic: str, jobs: Sequence[Job]) -> None:
        """When it is not answered, again: the lease id makes that safe."""
        for _ in range(ACKS_MAX):
            if self._call(
                "ack", topic, jobs, lambda client: client.ack(topic, self._order.node, jobs)
            ):
                return

    def _connected(self) -> penstock.Client:
        """To the server that lives now, whenever that is."""
        while True:
            found = find_server(Path(self._order.home))
            if found is None:
                self._pause.wait(PAUSE_S)
                continue
            life, url = found
            if self._client is None or life != self._life:
                # One attempt only: a repetition would hide what became of the first.
                self._client = penstock.connect(url, timeout_s=TIMEOUT_S, attempts_max=1)
                self._life = life
            return self._client

    def _call(
        self, verb: str, topic: str, jobs: Sequence[Job], call: Callable[[penstock.Client], T]
    ) -> T | None:
        """Make it, and write down both ends of it. None when there was no answer."""
        client = self._connected()
        name = f"{self._order.name}.{os.getpid()}.{next(self._calls)}"
        self._write(
            e="asked",
            call=name,
            verb=verb,
            topic=topic,
            life=self._life,
            worker=self._order.name,
            jobs=[(job.seq, job.lease_id) for job in jobs],
        )
        try:
            answer = call(client)
        except PenstockError as error:
            how = "unknown"
            if isinstance(error, ConnectionFailed):
                how = "unsent"
            elif isinstance(error, UsageError):
                how = "refused"
            self._write(e=how, call=name, why=str(error))
            self._pause.wait(PAUSE_S)
            return None
        if isinstance(answer, Claimed):
            given = [(job.seq, job.lease_id, job.deliveries, job.data["n"]) for job in answer.jobs]
            self._write(e="claimed", call=name, given=given)
        elif isinstance(answer, Settled):
            self._write(e="settled", call=name, done=answer.done, skipped=answer.skipped)
        return answer

    def _write(self, **event: Any) -> None:
        line = _encode({"t": time.monotonic(), **event}) + b"\n"
        if os.write(self._journal, line) != len(line):
            raise AssertionError("half a line in the journal")


def main(text: str) -> None:
    Worker(msgspec.json.decode(text, type=Order)).run()
