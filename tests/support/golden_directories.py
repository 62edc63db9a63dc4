"""Data directories of an earlier commit: how they were filled, what they hold, how they go on.

`scripts/make_golden_directories.py` runs this file with the code of that commit and keeps the
files and the answers under `tests/golden`. The tests run it with the present code over copies of
those files and compare the answers. So only documented calls are used here, and every answer is
a value of JSON.
"""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import penstock
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.testing import FakeClock

Json = Any
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
EARLIER = GOLDEN / "b6e1408"
BOOT_ID = "00000000-0000-4000-8000-000000000015"  # that of the machine that wrote them
HOUR_MS = 3_600_000
_INFO = ("name", "id", "epoch", "head_seq", "earliest_seq", "next_seq", "count", "bytes")
_CONFIG = (
    *("type", "ttl_ms", "cap_records", "cap_bytes", "discard", "durability", "priority"),
    *("idempotency_window_ms", "dedupe_node", "lease_ms", "claim_jitter_ms", "max_deliveries"),
    *("dead_letter", "leases_durable"),
)
_RULES = ("group_by", "retry_base_ms", "retry_cap_ms", "retry_jitter")
_RECORD = ("seq", "ts", "tag", "node", "meta", "data")
_PAGE = ("next_seq", "head_seq", "earliest_seq", "caught_up", "epoch")
_GAP = ("first", "last", "reason", "missed_estimate")
_POSITION = ("name", "seq", "epoch", "ts", "lag_records", "lag_ms", "head_seq")
_SCHEDULE = ("seq", "cron", "timezone", "due")
_COUNTS = ("ready", "in_flight", "delayed", "dead_lettered")
_JOB = ("seq", "ts", "deadline", "deliveries", "tag", "meta", "data")
_ROUTER = (
    *("name", "source", "dest", "preserve_node", "preserve_tag", "filter", "allow_cycle"),
    *("exactly_once", "cursor", "forwarded_total", "lag_records", "stopped"),
)
_APPENDED = ("topic", "first_seq", "last_seq", "count", "head_seq", "epoch", "deduped")


class SameBoot(OsFilesystem):
    """The machine has not been restarted since the directories were written. With the machine's
    own boot id it has."""

    def boot_id(self) -> str:
        return BOOT_ID


def unpack(name: str, target: Path, earlier: Path = EARLIER) -> Path:
    """The files of one golden directory, in a folder of that name."""
    with tarfile.open(earlier / f"{name}.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # not in Python 3.11.3 and earlier
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)
    return target / name


def expectation(case: str, earlier: Path = EARLIER) -> Json:
    """What the earlier commit read and answered."""
    return json.loads((earlier / f"{case}.json").read_text(encoding="utf-8"))


def open_home(home: Path, clock: FakeClock, fs: Filesystem) -> penstock.Log:
    """Open `home/data` with the cold tier `home/cold`, wherever that was before. Small files, so
    that a few hundred records fill several of each kind; no threads and no chance, so that the
    same calls leave the same files."""
    settings = penstock.Settings(
        background=False,
        wal_shards=2,
        wal_file_bytes=16_384,
        segment_max_events=8,
        hot_retain_segments=1,
        cold_dir=str(home / "cold"),
    )
    random_bytes = random.Random(15).randbytes
    return penstock.open(
        home / "data", settings=settings, clock=clock, fs=fs, random_bytes=random_bytes
    )


def fill(log: penstock.Log, clock: FakeClock) -> None:
    """Something of everything: in segments, in the cold tier, in snapshots and in the WAL."""
    _create(log)
    _append_first(log, clock)
    log.checkpoint(everything=True)
    _change_sealed(log, clock)
    log.checkpoint(everything=True)
    log.relocate()
    _append_last(log, clock)


def _create(log: penstock.Log) -> None:
    for durability in ("ephemeral", "memory", "disk", "fsync"):
        log.create(f"class.{durability}", durability=durability)
    log.create("orders", durability="fsync", idempotency_window_ms=24 * HOUR_MS)
    log.create("capped.records", cap_records=10)
    log.create("capped.bytes", cap_bytes=200)
    log.create("capped.reject", cap_records=4, discard="reject")
    log.create("short", ttl_ms=60_000)
    log.create("trimmed", cap_records=5)
    log.create("recreated", durability="fsync")
    log.create(
        "mail",
        type="queue",
        durability="fsync",
        lease_ms=30_000,
        leases_durable=True,
        max_deliveries=2,
        dead_letter="mail.dead",
    )
    log.create("groups", type="queue", queue={"group_by": "tag", "retry_jitter": 0.0})
    log.create_router("orders->eu", "orders", "orders.eu", filter="eu*")
    log.create_router("orders->audit", "orders", "audit", preserve_node=False, exactly_once=True)
    log.create_router("audit->archive", "audit", "archive", preserve_tag=False)
    log.create_router("trimmed->kept", "trimmed", "kept")
    log.create_router("dropped", "orders", "nowhere")


def _append_first(log: penstock.Log, clock: FakeClock) -> None:
    for durability in ("ephemeral", "memory", "disk", "fsync"):
        log.append(f"class.{durability}", [{"n": n} for n in range(5)], tag="t", node="n-1")
    for start in range(0, 40, 4):
        log.append("orders", _orders(start, 4), node="till-1", idempotency_key=f"orders-{start}")
        clock.advance(7)
    log.append("trimmed", [{"n": n} for n in range(3)])
    copy_all(log)
    log.append("capped.records", [{"n": n} for n in range(25)])
    log.append("capped.bytes", [{"text": "x" * 30, "n": n} for n in range(9)])
    log.append("capped.reject", [1, 2, 3, 4])
    log.append("short", [{"n": n} for n in range(6)])
    log.append("recreated", ["of an earlier epoch"] * 3)
    log.append("mail", [{"to": n} for n in range(12)], tag="letter")
    log.append("groups", [_record({"n": n}, tag=f"g-{n % 2}") for n in range(6)])
    log.append_many(
        [("orders", [{"id": 1000}]), ("class.disk", [{"n": 1000}, {"n": 1001}])],
        idempotency_key="many-1",
    )
    log.move_position("orders", "billing", 12)
    log.move_position("orders", "gone", 3)
    log.drop_position("orders", "gone")


def _change_sealed(log: penstock.Log, clock: FakeClock) -> None:
    """Changes of what lies in segments already."""
    log.delete("orders", tag="us")
    log.delete("orders", seqs=[2, 17, 41])
    log.delete("class.fsync", before_seq=3)
    clock.advance(40_000)
    log.append("short", [{"n": n} for n in range(6, 9)])
    for worker in ("worker-1", "worker-2"):  # two leases run out: the job is a dead letter
        log.claim("mail", worker, 1)
        clock.advance(31_000)
        log.queue_counts("mail")
    log.drop("recreated")
    log.create("recreated", cap_records=3)
    log.append("recreated", [{"n": n} for n in range(5)])
    log.drop_router("dropped")
    # The cap removes records that the router has not copied yet.
    log.append("trimmed", [{"n": n} for n in range(3, 20)])
    log.append("orders", _orders(50, 10), idempotency_key="orders-50")
    copy_all(log)


def _append_last(log: penstock.Log, clock: FakeClock) -> None:
    """Changes that stay in the WAL, behind the last checkpoint."""
    log.append("orders", _orders(60, 6), tag="eu-late", idempotency_key="orders-60")
    log.append("trimmed", [{"n": 20}, {"n": 21}])
    copy_all(log)  # logged as references to the frames of the sources
    log.delete("orders", seqs=[5, 44, 60])
    log.append("capped.records", [{"n": 25}, {"n": 26}, {"n": 27}])
    log.append("class.ephemeral", [{"n": 5}, {"n": 6}])
    log.append("class.memory", [{"n": 5}], tag="late")
    log.append_many(
        [("class.fsync", [{"n": 2000}]), ("class.memory", [{"n": 2000}]), ("mail", [{"to": 99}])],
        idempotency_key="many-2",
    )
    log.append("short", [{"n": 9}])
    _work(log, clock)
    log.move_position("orders", "billing", 45)
    log.move_position("class.fsync", "audit", 4)
    log.create("late", durability="memory", priority=5)
    log.create_router("late->dropped", "late", "late.copies")
    log.drop_router("late->dropped")
    log.append("late", [b'{"kept":  "as it is written"}', None, "\u00e9\u6f22", [1.5, {}]])


def _work(log: penstock.Log, clock: FakeClock) -> None:
    """Jobs in every state."""
    jobs = log.claim("mail", "worker-1", 6).jobs
    log.ack("mail", "worker-1", jobs[:2])
    log.nack("mail", "worker-1", jobs[2:3], delay_ms=HOUR_MS)
    log.extend("mail", "worker-1", jobs[3:4], lease_ms=2 * HOUR_MS)
    log.append("mail", [{"to": "later"}], delay_ms=HOUR_MS)
    log.append("mail", [{"to": "everybody"}], cron="0 3 * * *", timezone="Europe/Berlin")
    log.claim("groups", "worker-3", 2)
    clock.advance(1000)


def _orders(start: int, count: int) -> list[penstock.Record]:
    return [
        _record(
            {"id": n, "total": n / 4, "text": f"\u00e4{n}"},
            tag=("eu", "us", "eu-north", None)[n % 4],
            meta={"by": "ann"} if n % 3 == 0 else None,
        )
        for n in range(start, start + count)
    ]


def _record(data: Json, **more: Json) -> penstock.Record:
    return penstock.Record(data=data, **more)


def copy_all(log: penstock.Log) -> None:
    """Without threads, only reads bring copies."""
    for name in ("orders.eu", "audit", "archive", "kept", "nowhere"):
        if any(info.name == name for info in log.topics(name)):
            log.read(name)


# What a log holds.


def describe(log: penstock.Log, *, with_segments: bool = True) -> Json:
    """Everything that can be asked of a log. The number of segments is left out where a later
    version may divide records in another way."""
    copy_all(log)
    return {
        "topics": {
            info.name: _described(log, info, with_segments=with_segments) for info in log.topics()
        },
        "routers": [_fields(one, _ROUTER) for one in log.routers()],
    }


def _described(log: penstock.Log, info: penstock.TopicInfo, *, with_segments: bool) -> Json:
    found = {
        "info": _fields(info, _INFO) | {"last_write_ts": info.last_write_ts},
        "config": _fields(info.config, _CONFIG) | {"queue": _fields(info.config.rules, _RULES)},
        "positions": [_values(one, _POSITION) for one in log.positions(info.name)],
    } | contents(log, info.name)
    if with_segments:
        found["segments"] = info.segments
    if info.config.type == "queue":
        if info.config.rules.group_by is None:  # else jobs behind others count after a claim only
            found["jobs"] = _fields(log.queue_counts(info.name), _COUNTS)
        found["schedules"] = [_values(one, _SCHEDULE) for one in log.schedules(info.name)]
    return found


def contents(log: penstock.Log | penstock.Client, topic: str) -> dict[str, Json]:
    """Every page of a topic, and the records and gaps of all of them."""
    pages, gaps, records = [], [], []
    after = 0
    while True:
        page = log.read(topic, after)
        pages.append(_values(page, _PAGE))
        if page.gap is not None:
            gaps.append(_values(page.gap, _GAP))
        records += [_values(record, _RECORD) for record in page.records]
        if page.caught_up:
            return {"pages": pages, "gaps": gaps, "records": records}
        after = page.next_seq


def changes(before: Json, after: Json) -> Json:
    """What one description has that the other has not, topic by topic."""
    found = {}
    for name, topic in after["topics"].items():
        old = before["topics"].get(name, {"records": []})["records"]
        new = topic["records"]
        found[name] = topic | {
            "records": [record for record in new if record not in old],
            "removed": [record[0] for record in old if record not in new],
        }
        del found[name]["config"]
    return {"topics": found, "routers": after["routers"]}


def _values(value: object, names: Iterable[str]) -> list[Json]:
    return [getattr(value, name) for name in names]


def _fields(value: object, names: Iterable[str]) -> dict[str, Json]:
    found = {name: getattr(value, name) for name in names}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in found.items()}


# How it goes on.


def continue_log(log: penstock.Log, clock: FakeClock) -> Json:
    """Use every part of the log again, and tell each answer and what it holds then."""
    before = describe(log, with_segments=False)
    said: dict[str, Json] = {}
    said["repeated"] = [
        *(_repeat(log, start, 4) for start in range(0, 40, 4)),
        _repeat(log, 50, 10),
        _repeat(log, 60, 6, tag="eu-late"),
        *_many(
            log, "many-1", ("orders", [{"id": 1000}]), ("class.disk", [{"n": 1000}, {"n": 1001}])
        ),
    ]
    said["appended"] = [
        _appended(log.append(info.name, [{"on": info.name}], tag="eu-on"))
        for info in log.topics()
        if info.config.discard == "old" and info.config.type == "log"
    ]
    said["expected"] = _expecting(log, "orders")
    said["refused"] = _error_of(log, "capped.reject")
    said["many"] = _many(
        log, "many-3", ("orders", [{"id": 3000}]), ("audit.two", [1]), ("mail", [2])
    )
    said["deleted"] = [
        log.delete("orders", tag="eu-north").deleted,
        log.delete("class.disk", seqs=[1, 6]).deleted,
        log.delete("capped.reject", before_seq=3).deleted,
    ]
    said["room"] = _appended(log.append("capped.reject", [5]))
    said["jobs"] = _continue_jobs(log, clock)
    log.move_position("orders", "billing", 60)
    log.drop("class.memory")
    said["created"] = _appended(log.append("class.memory", ["new"]))
    after = describe(log, with_segments=False)
    said["changes"] = changes(before, after)
    log.compact()
    log.relocate()
    said["is_same_when_compacted"] = describe(log, with_segments=False) == after
    return said


def _continue_jobs(log: penstock.Log, clock: FakeClock) -> Json:
    first = log.claim("mail", "worker-9", 50).jobs
    log.ack("mail", "worker-9", first)
    clock.advance(3 * HOUR_MS)  # leases run out, delays end, records expire
    second = log.claim("mail", "worker-9", 50).jobs
    grouped = log.claim("groups", "worker-9", 50).jobs
    done = log.ack("groups", "worker-9", grouped)
    redriven = log.redrive("mail.dead")
    return {
        "first": [_values(job, _JOB) for job in first],
        "second": [_values(job, _JOB) for job in second],
        "grouped": [_values(job, _JOB) for job in grouped],
        "acknowledged": [done.done, done.skipped],
        "redriven": [redriven.moved, redriven.is_done],
    }


def _repeat(log: penstock.Log, start: int, count: int, tag: str | None = None) -> Json:
    return _appended(
        log.append("orders", _orders(start, count), tag=tag, idempotency_key=f"orders-{start}")
    )


def _many(log: penstock.Log, key: str, *writes: tuple[str, Sequence[Json]]) -> list[Json]:
    return [_appended(one) for one in log.append_many(writes, idempotency_key=key)]


def _expecting(log: penstock.Log, topic: str) -> Json:
    head = log.topic(topic).head_seq
    try:
        log.append(topic, [0], expected_seq=head - 1)
    except penstock.SeqMismatch as error:
        refused = error.head_seq
    return [refused, _appended(log.append(topic, [{"id": 4000}], expected_seq=head))]


def _error_of(log: penstock.Log, topic: str) -> str:
    try:
        log.append(topic, [0])
    except penstock.PenstockError as error:
        return type(error).__name__
    return ""


def _appended(answer: penstock.Appended) -> Json:
    return _values(answer, _APPENDED)
