"""Queues: claim and acknowledge, embedded and over HTTP, beside beanstalkd and PostgreSQL."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from typing import Final

import msgspec

from benchmarks.postgres import POSTGRES, postgres
from benchmarks.server_own import own_server
from benchmarks.server_process import DidNotStart, Missing, Running
from penstock.cli.figure import PAYLOAD, Figure, folder
from penstock.engine.open_log import open_log
from penstock.storage.fs import OsFilesystem

_BATCH: Final = 100
_JOBS: Final = 20_000  # of a round, which may end before they are done
_FULL_S: Final = 0.5  # rounds shorter than this get fewer jobs
_JSON: Final = {"Content-Type": "application/json"}


def queue_figures(root: str, seconds: float) -> Generator[Figure]:
    embedded = _embedded(root, seconds)
    yield embedded
    yield from _served(root, seconds, embedded.value)


def _embedded(root: str, seconds: float) -> Figure:
    with folder(root) as path, open_log(path) as log:
        log.create("jobs", type="queue", durability="fsync")

        def put(count: int) -> None:
            for at in range(0, count, 1000):
                log.append("jobs", [PAYLOAD] * min(1000, count - at))

        def cycle() -> int:
            jobs = log.claim("jobs", "bench", _BATCH).jobs
            return log.ack("jobs", "bench", jobs).done if jobs else 0

        rate = _rate(put, cycle, seconds)
    name = f"claim + ack in batches of {_BATCH}, fsync, embedded"
    return Figure(name, rate, "jobs/s", "one worker; a sync for each ack", 50_000)


def _served(root: str, seconds: float, embedded: float) -> Iterator[Figure]:
    with folder(root) as path, own_server(path) as server:
        if not isinstance(server, Running):
            yield Figure("claim + ack over HTTP", float("nan"), "jobs/s", server.reason)
            return
        peer = _Peer(server.port)
        peer.call("PUT", "/v0/topics/jobs", {"type": "queue", "durability": "fsync"})
        ours = _rate(peer.put, peer.cycle, seconds)
        name = f"claim + ack in batches of {_BATCH}, fsync, over HTTP"
        yield Figure(name, ours, "jobs/s", "one connection, one worker")
        yield from _beanstalkd(path, seconds, ours)
        yield from _postgres(root, seconds, ours, embedded)
        # A new connection: the server has closed the old one if the others took long.
        yield from _single(path, _Peer(server.port), seconds)


def _single(path: str, peer: _Peer, seconds: float) -> Iterator[Figure]:
    """One job: claim and ack are two round trips and one sync."""
    peer.put(20_000)
    bare = _median(lambda: peer.call("GET", "/v0/health", None), seconds / 2)
    sync = _sync_s(path)
    pair = _median(lambda: peer.cycle(1), seconds)
    bound = 2 * bare + sync
    yield Figure("one job, claim to acknowledged, p50", pair * 1e3, "ms")
    yield Figure(
        "  … against two bare round trips and a sync",
        pair / bound,
        "times",
        f"a round trip {bare * 1e3:.3f} ms, a sync {sync * 1e3:.3f} ms",
        3.0,
        at_most=True,
    )


def _beanstalkd(path: str, seconds: float, ours: float) -> Iterator[Figure]:
    name = "  … beanstalkd, binlog synced at each write"
    program = shutil.which("beanstalkd")
    if program is None:
        yield Figure(name, float("nan"), "jobs/s", "not installed")
        return
    store = os.path.join(path, "beanstalkd")
    os.mkdir(store)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [program, "-l", "127.0.0.1", "-p", str(port), "-b", store, "-f", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with contextlib.closing(_Beanstalk(port)) as tube:
            theirs = _rate(tube.put, tube.cycle, seconds)
    finally:
        process.terminate()
        process.wait()
    yield Figure(name, theirs, "jobs/s", f"{_BATCH} reserves, then {_BATCH} deletes, pipelined")
    yield Figure("  … against beanstalkd", ours / max(theirs, 1e-9), "times", "", 1.0)


def _postgres(root: str, seconds: float, ours: float, embedded: float) -> Iterator[Figure]:
    name = "  … PostgreSQL, SKIP LOCKED, synced at each commit"
    os.chmod(root, 0o711)  # its server, which is not root's, has to pass through
    with folder(root) as path:
        os.chmod(path, 0o711)
        with postgres(path) as jobs:
            if isinstance(jobs, Missing):
                yield Figure(name, float("nan"), "jobs/s", jobs.reason)
                return
            theirs = _rate(jobs.put, lambda: jobs.cycle(_BATCH), seconds)
    note = f"{POSTGRES.version}; one connection, a commit for each claim and each ack"
    yield Figure(name, theirs, "jobs/s", note)
    theirs = max(theirs, 1e-9)
    yield Figure("  … embedded, against PostgreSQL", embedded / theirs, "times", "", 3.0)
    note = "as JSON over HTTP, beside its binary protocol on a unix socket"
    yield Figure("  … over HTTP, against PostgreSQL", ours / theirs, "times", note)


class _Peer:
    """Plain calls to our server over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def call(self, method: str, path: str, body: object) -> bytes:
        text = None if body is None else msgspec.json.encode(body)
        self._connection.request(method, path, text, _JSON if text else {})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise DidNotStart(f"{method} {path}: {answer.status} {data[:200]!r}")
        return data

    def put(self, count: int) -> None:
        one = {"data": msgspec.Raw(PAYLOAD)}
        for at in range(0, count, 1000):
            self.call("POST", "/v0/topics/jobs", {"records": [one] * min(1000, count - at)})

    def cycle(self, most: int = _BATCH) -> int:
        claimed = self.call("POST", "/v0/topics/jobs/claim", {"node": "bench", "max": most})
        jobs = msgspec.json.decode(claimed)["claimed"]
        seqs = [job["$seq"] for job in jobs]
        ids = [job["lease_id"] for job in jobs]
        if seqs:
            asked = {"node": "bench", "seqs": seqs, "lease_ids": ids}
            self.call("POST", "/v0/topics/jobs/ack", asked)
        return len(seqs)


class _Beanstalk:
    """Its text protocol, with requests sent ahead of their answers."""

    def __init__(self, port: int) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
        self._lines = self._socket.makefile("rb")

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def put(self, count: int) -> None:
        one = b"put 0 0 60 %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
        for at in range(0, count, _BATCH):
            now = min(_BATCH, count - at)
            self._socket.sendall(one * now)
            for _ in range(now):
                self._lines.readline()

    def cycle(self) -> int:
        self._socket.sendall(b"reserve-with-timeout 0\r\n" * _BATCH)
        ids = []
        for _ in range(_BATCH):
            words = self._lines.readline().split()
            if words and words[0] == b"RESERVED":
                ids.append(words[1])
                self._lines.read(int(words[2]) + 2)
        self._socket.sendall(b"".join(b"delete %b\r\n" % one for one in ids))
        for _ in ids:
            self._lines.readline()
        return len(ids)


def _rate(put: Callable[[int], None], cycle: Callable[[], int], seconds: float) -> float:
    """Jobs a second, best of three rounds, with the queue filled between them."""
    put(_BATCH * 5)
    while cycle():
        pass
    rates = []
    jobs = min(_JOBS, round(_JOBS * seconds / _FULL_S))  # a short look needs fewer
    for _ in range(3):
        put(jobs)
        done, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            now = cycle()
            if not now:
                break
            done += now
        rates.append(done / (time.perf_counter() - started))
    return max(rates)


def _median(work: Callable[[], object], seconds: float) -> float:
    took = []
    until = time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        work()
        took.append(time.perf_counter() - started)
    return sorted(took)[len(took) // 2]


def _sync_s(path: str) -> float:
    """A small write and its sync, as the WAL does them."""
    file = OsFilesystem().create(os.path.join(path, "sync"))
    try:
        file.allocate(1 << 20)
        at = 0
        took = []
        for _ in range(200):
            started = time.perf_counter()
            file.write_at(PAYLOAD, at)
            file.sync()
            took.append(time.perf_counter() - started)
            at += len(PAYLOAD)
    finally:
        file.close()
    return sorted(took)[len(took) // 2]
