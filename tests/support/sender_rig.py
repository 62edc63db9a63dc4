"""Producers with spools on disk and their server, each in a process of its own to be killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import msgspec

import penstock
from penstock.errors import Overloaded, TopicNotFound
from penstock.sender.sender import Sender
from tests.faults.siege import small_settings
from tests.faults.victim import DEADLINE_S, Launcher, Victim, eventually
from tests.support.rig import ROOT
from tests.support.sender_mutants import OF_SENDERS
from tests.support.sender_worker import Flushed, Order, read_journal
from tests.support.sink import conf, free_port

SEGMENT_BYTES = 64 * 1024
SPOOL_BYTES = 8 * SEGMENT_BYTES
LIFE_ROWS = 1_000_000  # numbers that one life of a producer may use
MUTANT_DRAIN_S = 60.0  # a mutant may never come to the end, and there is another try
# Each producer: its topics, and what it wants besides.
PRODUCERS: dict[str, tuple[list[str], dict[str, object]]] = {
    "alpha": (["own-alpha", "shared"], {}),
    "beta": (["shared", "synced"], {"request_durable_ack": "on"}),
    "gamma": (["own-gamma", "synced", "shared"], {"sf_durability": "append"}),
}


class SenderLauncher(Launcher):
    """Forks servers and producers; see `tests.support.sender_launch`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sender_launch"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class SenderVictim(Victim):
    """A server that always has the same port, and the producers beside it."""

    def __init__(self, home: Path, *, mutant: str | None = None) -> None:
        is_senders = mutant in OF_SENDERS
        super().__init__(home, mutant=None if is_senders else mutant)
        self._launcher._process.kill()
        self._launcher.close()
        self._launcher = SenderLauncher()
        self._of_senders = (mutant or "") if is_senders else ""
        self.port = free_port()
        self.configure({"PENSTOCK_PORT": self.port})

    def hire(self, order: Order) -> int:
        """Start a producer: its process."""
        return self._launcher.ask(
            "spawn",
            args=["produce", msgspec.json.encode(order).decode()],
            env=self.env | {"RIG_MUTANT": self._of_senders},
            cwd=str(self.home),
            log=str(self.home / "producers.log"),
        )

    def end(self, pid: int, how: signal.Signals) -> int:
        """Its exit code, when it is gone."""
        with suppress(ProcessLookupError):
            os.kill(pid, how)
        return self._launcher.ask("wait", pid=pid)


class SenderRig:
    """One data directory, one directory of spools, and what was promised. A context manager."""

    def __init__(self, home: Path, seed: str, *, mutant: str | None = None) -> None:
        self.choose = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.victim = SenderVictim(home, mutant=mutant)
        self.anomalies: list[str] = []
        self._mutant = mutant
        self._drain_s = MUTANT_DRAIN_S if mutant else DEADLINE_S
        self._seed = seed
        self._home = home
        self._sf_dir = home / "spools"
        self._sf_dir.mkdir()
        self._pids: dict[str, int] = {}
        self._lives: Counter[str] = Counter()
        self._pause = threading.Event()

    def __enter__(self) -> SenderRig:
        return self

    def __exit__(self, *_: object) -> None:
        self.victim.__exit__()

    def run(self, rounds: int) -> list[str]:
        """What is wrong."""
        self.victim.configure(small_settings(self.choose))
        self.victim.start()
        with self._client() as client:
            client.create("synced", durability="fsync")
        for name in PRODUCERS:
            self._start(name)
        for number in range(rounds):
            self._round(number)
        for name in PRODUCERS:
            self._end(name, signal.SIGKILL)
        self._settle()
        self._judge()
        return self.anomalies

    def figures(self) -> str:
        return ", ".join(f"{self.counts[name]} {name}" for name in sorted(self.counts))

    # Rounds.

    def _round(self, number: int) -> None:
        choose = self.choose
        self._pause.wait(choose.choice((0.01, choose.uniform(0, 0.06))))
        if number % 3:
            name = choose.choice(sorted(PRODUCERS))
            is_stop = choose.random() < 0.3
            self._end(name, signal.SIGTERM if is_stop else signal.SIGKILL)
            self._start(name)
        else:
            self._end_server()
            self.victim.configure(small_settings(choose))
            self.victim.spawn()
            if choose.random() < 0.8:  # else it may die before it is up
                eventually(self.victim.has_address, "an address")
        if number % 10 == 0:
            self._look_at_spools()

    def _end_server(self) -> None:
        if (code := self.victim.exit_code) is not None:
            raise AssertionError(f"ended by itself with {code}\n{self.victim.said()}")
        if self.choose.random() < 0.1 and self.victim.is_ready():
            assert self.victim.stop() == 0, self.victim.said()
            self.counts["stops of the server"] += 1
        else:
            self.victim.kill()
            self.counts["kills of the server"] += 1

    def _start(self, name: str) -> None:
        self._lives[name] += 1
        topics, _ = PRODUCERS[name]
        order = Order(
            self._conf(name),
            str(self._home / "journal"),
            name,
            topics,
            f"{self._seed}.{name}.{self._lives[name]}",
            self._lives[name] * LIFE_ROWS,
        )
        self._pids[name] = self.victim.hire(order)

    def _end(self, name: str, how: signal.Signals) -> None:
        code = self.victim.end(self._pids.pop(name), how)
        kinds = {-signal.SIGKILL: "kills of a producer", 0: "ends of a producer"}
        # One that was asked to end before it had its handler ends with the signal.
        kinds[-signal.SIGTERM] = "ends of a producer"
        if code not in kinds:
            log = (self._home / "producers.log").read_text(errors="replace")[-3000:]
            raise AssertionError(f"{name} ended with {code}\n{log}")
        self.counts[kinds[code]] += 1

    def _conf(self, name: str) -> str:
        return conf(
            f"127.0.0.1:{self.victim.port}",
            sf_dir=self._sf_dir,
            sender_id=name,
            sf_max_segment_bytes=SEGMENT_BYTES,
            sf_max_total_bytes=SPOOL_BYTES,
            sf_append_deadline_millis=200,
            close_flush_timeout_millis=self.choose.choice((0, 20, 400)),
            on_server_error="halt",
            **PRODUCERS[name][1],
        )

    def _look_at_spools(self) -> None:
        """No spool is ever larger than it may be. What was written over a temporary name is
        between two states, and a drained one has no segments."""
        for name in PRODUCERS:
            sizes = [_size(path) for path in (self._sf_dir / name).glob("*.seg")]
            if sum(sizes) > SPOOL_BYTES:
                self.anomalies.append(f"unbounded: {name} has {sum(sizes)} bytes")

    # The end.

    def _client(self) -> penstock.Client:
        host, port = self.victim.address
        return penstock.connect(f"http://{host}:{port}", timeout_s=DEADLINE_S)

    def _settle(self) -> None:
        """The server is well, and the spools are drained by senders that nobody kills."""
        self.victim.kill()
        self.victim.start()
        for name in PRODUCERS:
            with Sender(self._conf(name)) as sender:
                self.counts["frames left for the end"] += sender.published_fsn - sender.acked_fsn
                if sender.damage:
                    self.anomalies.append(f"damaged: {sender.damage}")
                if not sender.drain(self._drain_s):
                    self.anomalies.append(f"stuck: {sender.status()}")
            left = list((self._sf_dir / name).glob("*.seg"))
            if left:
                self.anomalies.append(f"left: {name} has {left} after a drain")
            if (self._sf_dir / name / "dead-letter").exists():
                self.anomalies.append(f"dead-letter: {name} has one")

    def _judge(self) -> None:
        flushed = read_journal(self._home / "journal")
        found = {topic: self._rows(topic) for topic in {one.topic for one in flushed}}
        self.counts["rows flushed"] = sum(one.last - one.first + 1 for one in flushed)
        self.counts["rows found"] = sum(map(len, found.values()))
        for topic, rows in found.items():
            self.anomalies += _judged(topic, rows, [one for one in flushed if one.topic == topic])

    def _rows(self, topic: str) -> list[tuple[str, int]]:
        """Everything in it."""
        rows: list[tuple[str, int]] = []
        after = 0
        with self._client() as client:
            while True:
                try:
                    page = client.read(topic, after, 10_000)
                except TopicNotFound:
                    return rows
                except Overloaded:
                    continue
                if page.gap:
                    self.anomalies.append(f"gap: {topic} has {page.gap}")
                if not page.records:
                    return rows
                rows += [(record.data["by"], record.data["n"]) for record in page.records]
                after = page.records[-1].seq


def _judged(topic: str, rows: list[tuple[str, int]], flushed: list[Flushed]) -> list[str]:
    """What is wrong with a topic."""
    anomalies = []
    by_name: dict[str, list[int]] = defaultdict(list)
    for name, number in rows:
        by_name[name].append(number)
    for name, numbers in by_name.items():
        twice = [number for number, count in Counter(numbers).items() if count > 1]
        if twice:
            anomalies.append(f"duplicated: {topic} has {len(twice)} rows of {name}: {twice[:5]}")
        elif numbers != sorted(numbers):
            anomalies.append(f"reordered: {topic}, rows of {name}")
    for one in flushed:
        lost = set(range(one.first, one.last + 1)) - set(by_name[one.name])
        if lost:
            anomalies.append(f"lost: {topic} has no rows {sorted(lost)[:5]} of {one.name}")
    return anomalies


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
