"""Queues under a producer and workers in processes of their own, all of which can be hurt."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import penstock
from penstock.errors import Overloaded, TopicNotFound
from tests.faults.siege import small_settings
from tests.faults.victim import DEADLINE_S, Launcher, Victim, eventually
from tests.support.queue_history import End, QueueHistory, Rules
from tests.support.queue_launch import OFFSET
from tests.support.queue_worker import Order, find_server, journal_of
from tests.support.rig import ROOT

T = TypeVar("T")


class QueueLauncher(Launcher):
    """Forks servers and workers; see `tests.support.queue_launch`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.queue_launch"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class QueueVictim(Victim):
    """A server with a clock that can be set, and the workers beside it."""

    def __init__(self, home: Path, *, mutant: str | None = None) -> None:
        super().__init__(home, mutant=mutant)
        self._launcher._process.kill()
        self._launcher.close()
        self._launcher = QueueLauncher()
        self._clock = home / "clock"
        self.set_clock(0)
        self.configure({"RIG_CLOCK": self._clock})

    def set_clock(self, wrong_by_ms: int) -> None:
        """At once, for all servers to come and the one that runs. The monotonic clock goes on."""
        flags = os.O_WRONLY | os.O_CREAT
        descriptor = os.open(self._clock, flags, 0o600)
        os.pwrite(descriptor, OFFSET.pack(wrong_by_ms), 0)
        os.close(descriptor)

    def hire(self, order: Order) -> int:
        """Start a worker: its process."""
        return self._launcher.ask(
            "spawn",
            args=["work", msgspec.json.encode(order).decode()],
            env=self.env | {"RIG_MUTANT": ""},
            cwd=str(self.home),
            log=str(self.home / "workers.log"),
        )

    def fire(self, pid: int) -> None:
        """kill -9, and wait until it is gone."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._launcher.ask("wait", pid=pid)

    def has_ended(self, pid: int) -> bool:
        return not Path(f"/proc/{pid}").exists() or _state(pid) == "Z"


class QueueRig:
    """One data directory, its queues, their history. A context manager."""

    def __init__(
        self,
        home: Path,
        seed: str,
        queues: Mapping[str, Mapping[str, Any]],
        nodes: Sequence[str],
        *,
        mutant: str | None = None,
        **habits: Any,
    ) -> None:
        self.choose = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.queues = queues
        self.history = QueueHistory({topic: _rules(config) for topic, config in queues.items()})
        self.victim = QueueVictim(home, mutant=mutant)
        self.workers: dict[str, int] = {}  # name -> process
        self._nodes = {f"{node}{number}": node for number, node in enumerate(nodes)}
        self._habits = habits
        self._seed = seed
        self._number = 0
        self._exits = ExitStack()
        self._tidy = threading.Lock()

    def __enter__(self) -> QueueRig:
        self._exits.enter_context(self.victim)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.workers):
            self.end_worker(name)
        self._exits.close()

    # Server and workers.

    def start(self) -> None:
        self.victim.configure(small_settings(self.choose))
        self.victim.start()

    def open(self) -> None:
        """The server, its queues, and everybody who works on them."""
        self.start()
        for topic, config in self.queues.items():
            self.ask(lambda client, t=topic, c=config: client.create(t, type="queue", **c))
        for name in self._nodes:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        order = Order(
            home=str(self.victim.home),
            name=name,
            node=self._nodes[name],
            seed=f"{self._seed}.{name}.{self.choose.random()}",
            leases_ms={topic: config["lease_ms"] for topic, config in self.queues.items()},
            **self._habits,
        )
        self.workers[name] = self.victim.hire(order)

    def end_worker(self, name: str) -> None:
        self.victim.fire(self.workers.pop(name))

    def ask(self, what: Callable[[penstock.Client], T]) -> T:
        """Of the server that runs; when it does not answer, of the next one."""

        def attempt() -> tuple[T] | None:
            found = find_server(self.victim.home)
            if found is None:
                return None
            try:
                with penstock.connect(found[1], timeout_s=DEADLINE_S, attempts_max=1) as client:
                    return (what(client),)
            except Overloaded:
                return None

        return eventually(attempt, "an answer")[0]

    # Jobs.

    def produce(self, topic: str, count: int) -> None:
        """Append so many jobs, once, whatever happens to the server meanwhile."""
        numbers = range(self._number + 1, self._number + 1 + count)
        self._number += count
        records = [{"n": number} for number in numbers]
        key = f"{self._seed}-{numbers[0]}"
        answer = self.ask(lambda client: client.append(topic, records, idempotency_key=key))
        with self._tidy:
            for seq, number in enumerate(numbers, answer.first_seq):
                self.history.appended[topic][seq] = number
            self.counts["jobs"] += count

    def catch_up(self) -> QueueHistory:
        """The history up to now."""
        self.history.read(journal_of(self.victim.home))
        for name, pid in self.workers.items():
            if self.victim.has_ended(pid):
                log = self.victim.home / "workers.log"
                raise AssertionError(f"worker {name} ended by itself\n{log.read_text()[-4000:]}")
        return self.history

    def drain(self, deadline_s: float = DEADLINE_S) -> list[str]:
        """Nothing is hurt or added any more: wait until all is done, and judge."""
        with suppress(AssertionError):  # the end says what is left
            eventually(lambda: not any(map(self._left, self.queues)), "everything done", deadline_s)
        for name in list(self.workers):
            self.end_worker(name)
        ends = {topic: self._end(topic) for topic in self.queues}
        history = self.catch_up()
        self.counts += history.counts
        return history.judge(ends)

    def _left(self, topic: str) -> int:
        counts = self.ask(lambda client: client.queue_counts(topic))
        return counts.ready + counts.in_flight + counts.delayed

    def _end(self, topic: str) -> End:
        counts = self.ask(lambda client: client.queue_counts(topic))
        return End(
            counts.ready,
            counts.in_flight,
            counts.delayed,
            counts.dead_lettered,
            self.dead_of(topic),
        )

    def dead_of(self, topic: str) -> list[int]:
        """The seqs that the dead letters have of this queue's jobs."""
        place = self.queues[topic]["dead_letter"]

        def read(client: penstock.Client) -> list[int]:
            found: list[int] = []
            after = 0
            with suppress(TopicNotFound):
                while (page := client.read(place, after)).records:
                    found += [int(one.meta["$dead_letter_src_seq"]) for one in page.records]
                    after = page.records[-1].seq
            return found

        return self.ask(read)

    def figures(self) -> str:
        return ", ".join(f"{self.counts[name]} {name}" for name in sorted(self.counts))


class Producer:
    """A thread that appends to all queues in turn, a few jobs at a time. A context manager."""

    def __init__(self, rig: QueueRig, seed: str, pause_s: float) -> None:
        self._rig = rig
        self._choose = random.Random(seed)
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producer")

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def stop(self) -> None:
        """Once every append is answered."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise AssertionError(f"the producer: {self._error}") from self._error

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                topic = self._choose.choice(sorted(self._rig.queues))
                self._rig.produce(topic, self._choose.randint(1, 5))
                self._is_over.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 - told by `stop`
            self._error = error


def _rules(config: Mapping[str, Any]) -> Rules:
    return Rules(
        config["lease_ms"] / 1000,
        config.get("leases_durable", False),
        config.get("max_deliveries", 0),
    )


def _state(pid: int) -> str:
    """A letter: T is stopped, Z is dead."""
    with suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        return text.rpartition(")")[2].split()[0]
    return "Z"


def stop_process(pid: int) -> None:
    """SIGSTOP, and wait until it does not run."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: _state(pid) == "T", "a stopped process")
