"""What two source trees are compared by: a load on a server, or a loop over an embedded log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from benchmarks import compare_embedded
from benchmarks.load_cpu import Cores, Placement, busy_seconds
from benchmarks.load_job import TOPIC, Drive, EachTopic, Job, Load
from benchmarks.load_requests import (
    BATCH_TYPE,
    binary_batch,
    http,
    json_batch,
    text_frame,
    upgrade,
)
from benchmarks.server_own import create, own_server
from benchmarks.server_process import Missing
from benchmarks.server_stand import Stand
from benchmarks.source_tree import SourceTree
from penstock.cli.figure import PAYLOAD

_POST: Final = "/v0/topics/bench"
_WARM_UP_S: Final = 0.5
_TOPICS: Final = 1_000
_APPENDS: Final = 5  # to each topic of `actors`
_LIMIT_S: Final = 120.0
_SMALL: Final = b'{"n":1,"state":"running"}'
_PUBLISH: Final = (
    b'{"op":"publish","request_id":1,"topic":"bench","records":[{"data":%b}],"return_seqs":false}'
    % PAYLOAD
)


class Part(msgspec.Struct, frozen=True):
    """One comparison. `measure` runs it once with one tree."""

    name: str
    unit: str
    records: int  # for each answer
    description: str
    measure: Callable[[Stand, SourceTree], Load]


def _served(
    job: Callable[[float], Job],
    *,
    placement: Callable[[Cores], Placement] | None = None,
    topic: dict[str, Any] | None = None,
) -> Callable[[Stand, SourceTree], Load]:
    """A load on a new server with an empty data directory."""

    def measure(stand: Stand, tree: SourceTree) -> Load:
        with stand.folder() as here, own_server(here, tree.environment) as server:
            if isinstance(server, Missing):
                return Load(failure=server.reason)
            if topic is not None:
                create(server, "bench", **topic)
            where = placement(stand.cores) if placement else None
            return stand.run(server, job(stand.seconds), where)

    return measure


def _post(seconds: float) -> Job:
    request = http("POST", _POST, json_batch(PAYLOAD, 1))
    return Drive([request], 32, seconds, warm_up=_WARM_UP_S)


def _websocket(seconds: float) -> Job:
    return Drive(
        [text_frame(_PUBLISH)],
        8,
        seconds,
        in_flight=32,
        dialect="frames",
        hello=upgrade("/v0/ws"),
        hello_ends=b"\r\n\r\n",
        warm_up=_WARM_UP_S,
    )


def _json(seconds: float) -> Job:
    return Drive([http("POST", _POST, json_batch(PAYLOAD, 100))], 16, seconds, warm_up=_WARM_UP_S)


def _binary(seconds: float) -> Job:
    path = f"{_POST}?return_seqs=false"
    request = http("POST", path, binary_batch(PAYLOAD, 1_000), content=BATCH_TYPE)
    return Drive([request], 16, seconds, warm_up=_WARM_UP_S)


def _actors(seconds: float) -> Job:
    """The first append creates the topic; the delete leaves its last record."""
    del seconds  # the work is fixed, not its duration
    path = f"/v0/topics/actor-{TOPIC.decode()}"
    append = http("POST", path, json_batch(_SMALL, 1))
    delete = http("POST", f"{path}/delete", b'{"before_seq":%d}' % _APPENDS)
    return EachTopic([*[append] * _APPENDS, delete], _TOPICS, 32, _LIMIT_S)


class _OtherWork:
    """The cores that other processes use from now on, without this one and its children."""

    def __init__(self) -> None:
        self._busy, self._own, self._started = busy_seconds(), self._own_s(), time.perf_counter()

    def cores(self) -> float:
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        others = busy_seconds() - self._busy - (self._own_s() - self._own)
        return max(0.0, others) / elapsed

    @staticmethod
    def _own_s() -> float:
        """CPU seconds of this process and of its children that have ended."""
        spent = os.times()
        return spent.user + spent.system + spent.children_user + spent.children_system


def _embedded(part: str) -> Callable[[Stand, SourceTree], Load]:
    """A loop over an embedded log, in a process of its own."""

    def measure(stand: Stand, tree: SourceTree) -> Load:
        with stand.folder() as here:
            # -P: modules of this folder must not hide others of the same name.
            command = [sys.executable, "-P", compare_embedded.__file__, part, here]
            others = _OtherWork()
            done = subprocess.run(
                [*command, str(stand.seconds)],
                cwd=here,
                env={**os.environ, **tree.environment},
                capture_output=True,
                text=True,
                check=False,
            )
            others_cores = others.cores()
        if done.returncode:
            return Load(failure="".join(done.stderr.strip().splitlines()[-1:]))
        found = msgspec.json.decode(done.stdout, type=dict[str, float])
        elapsed = found["seconds"]
        cores = found["cpu_seconds"] / elapsed
        return Load(
            answers=int(found["count"]),
            seconds=elapsed,
            server_cores=cores,
            others_cores=others_cores,
        )

    return measure


_DISK: Final[dict[str, Any]] = {"durability": "disk"}

PARTS: Final = {
    part.name: part
    for part in (
        Part(
            "post",
            "records/s",
            1,
            "POST of 1 record as JSON, class disk, 32 connections",
            # The generator needs all of its core here.
            _served(_post, placement=lambda cores: cores.apart, topic=_DISK),
        ),
        Part(
            "websocket",
            "records/s",
            1,
            "WebSocket publications of 1 record, class disk, 8 connections × 32 in flight",
            _served(_websocket, topic=_DISK),
        ),
        Part(
            "json100",
            "records/s",
            100,
            "POST of 100 records as JSON, class disk, 16 connections",
            _served(_json, topic=_DISK),
        ),
        Part(
            "binary1000",
            "records/s",
            1_000,
            "POST of 1,000 records as a binary body, class disk, 16 connections",
            _served(_binary, topic=_DISK),
        ),
        Part(
            "actors",
            "requests/s",
            1,
            f"{_TOPICS:,} new topics, each {_APPENDS} appends of 1 small record and 1 delete, "
            "32 connections",
            _served(_actors),
        ),
        Part(
            "append1000",
            "records/s",
            1,
            "embedded append, class disk, batches of 1,000",
            _embedded("append1000"),
        ),
        Part(
            "append1", "records/s", 1, "embedded append, class disk, 1 record", _embedded("append1")
        ),
        Part(
            "fsync1", "records/s", 1, "embedded append, class fsync, 1 record", _embedded("fsync1")
        ),
        Part(
            "read1000",
            "records/s",
            1,
            "embedded read of the tail, pages of 1,000 as JSON",
            _embedded("read1000"),
        ),
        Part(
            "claims",
            "jobs/s",
            1,
            "embedded queue, class fsync: claim and ack of 100 jobs, appends included",
            _embedded("claims"),
        ),
    )
}
