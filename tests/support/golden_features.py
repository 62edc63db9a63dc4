"""A data directory of an earlier commit with tables and features, and the folder of a snapshot.

`scripts/make_golden_directories.py` fills it with the code of that commit and keeps the answers.
The tests open copies of it with the present code. So `describe` and `continue_features` use
documented calls only, and the definitions are those that the directory holds.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import penstock
from penstock.codec.columns import Columns
from penstock.features.definition import Definition
from penstock.features.table_part import TablePart
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.testing import FakeClock
from penstock.types import Offset
from tests.support import feature_history

Json = Any
START_MS = feature_history.START_MS
BEGIN_MS = START_MS + 60_000  # of the clock: the windows reach back to the events
INTERVAL_MS = 30_000
SAVED = 700  # events that the saved state of table T contains
TAIL = 60  # events behind it
USERS = 70  # the state of so many does not fit the memory of T
SHOWN = 30  # one row of so many is kept of a table with many keys
OLD = 300  # events of table H; the topic keeps the last of them only
OLD_SAVED = 290  # those in the snapshot of H
OLD_KEPT = 40
VISITS = 30
_APPENDED = ("first_seq", "last_seq", "count", "deduped")
_PART = ("id", "state", "lag", "keys", "counters", "lost_seqs")


def open_home(home: Path, clock: FakeClock, fs: Filesystem) -> penstock.Log:
    """Without threads and without chance."""
    settings = penstock.Settings(
        background=False,
        wal_shards=1,
        wal_file_bytes=1 << 20,
        segment_max_events=500,
        projection_interval_ms=INTERVAL_MS,
    )
    return penstock.open(
        home / "data", settings=settings, clock=clock, fs=fs, random_bytes=Random(16).randbytes
    )


def document() -> dict[str, Any]:
    """Table T has every operator, and not enough memory for its keys. H has them, too, over a topic
    that does not keep its events. Visits with an id are counted once."""
    found = feature_history.document(cold_after=None)
    (event, (table, _)) = found["events"][0], found["tables"]
    table["memory_max"] = 1 << 20
    found["events"] += [
        {**event, "name": "Old", "topic": "old"},
        {
            "name": "Visit",
            "topic": "visits",
            "fields": {"id": "str", "page": "str"},
            "dedupe": {"field": "id", "window": "1h"},
        },
    ]
    found["tables"] += [
        {**table, "name": "H", "from": "Old"},
        {
            "name": "Pages",
            "from": "Visit",
            "key": ["page"],
            "features": {"n": {"op": "count"}, "n_1h": {"op": "count", "window": "1h"}},
        },
    ]
    return found


def fill(log: penstock.Log, clock: FakeClock, home: Path) -> None:
    """Saved states, and behind each of them records that are in the log alone."""
    events = list(feature_history.events(Random(16), SAVED + TAIL, keys=USERS))
    old = list(feature_history.events(Random(17), OLD, keys=4))
    log.features.register(document())
    accounts = log.table("accounts", key="id")
    log.append("events", events[:SAVED])
    log.append("old", old)
    _write_snapshot(log, home / "snapshot", old[:OLD_SAVED])
    log.create("old", cap_records=OLD_KEPT)
    log.features.push("Visit", [_visit(n) for n in range(VISITS)])
    log.append("accounts", [{"id": n % 20, "n": n} for n in range(50)])
    log.delete("accounts", seqs=[50])
    log.append("late", [{"n": 1}, {"n": 2}], tag="held", deliver_at=START_MS + 3_600_000)
    log.append("late", [{"n": 3}], delay_ms=60_000)
    log.checkpoint(everything=True)
    rows(log)
    accounts.count()
    clock.advance(INTERVAL_MS + 1)
    log.upkeep()  # saves the states

    log.append("events", events[SAVED:])
    log.features.push("Visit", [_visit(n) for n in range(VISITS, VISITS + 5)])
    log.append("accounts", [{"id": n, "n": 100 + n} for n in range(15, 25)])
    log.append("late", [{"n": 4}], delay_ms=7_200_000)
    log.sync()


def tails(log: penstock.Log) -> dict[str, int]:
    """The records behind the saved state of each projection; nothing is folded yet."""
    log.features.tables()
    log.features.pusher("Visit")
    found = {}
    for one in log.projections.everything():
        one.runner.restore()
        found[f"{one.definition.kind}/{one.definition.name}"] = one.runner.status.lag
    return dict(sorted(found.items()))


def _visit(number: int) -> dict[str, str]:
    return {"id": f"visit-{number}", "page": f"p{number % 4}"}


def _write_snapshot(log: penstock.Log, folder: Path, texts: Sequence[bytes]) -> None:
    """As two tasks of Spark write it: the state of some keys each."""
    fs, tail = OsFilesystem(), log.core.features.store._log.tail("old")
    plan = Definition.parse(document()).plan("H")
    head = tail.head
    if head is None:
        raise AssertionError("the topic has no records")
    offset = Offset(head.epoch, len(texts))
    folder.mkdir()
    names = []
    for number in range(2):
        part = TablePart(plan)
        chosen = [at for at, text in enumerate(texts) if _task_of(text) == number]
        part.apply(_columns([texts[at] for at in chosen], [at + 1 for at in chosen]))
        identity = CheckpointIdentity(
            tail.log_id, tail.topic, part.kind, part.version, part.definition
        )
        names.append(f"task-{number}.bin")
        state_folder.write_file(
            fs, str(folder), names[-1], identity, offset, START_MS, part.snapshot()
        )
    listed = state_folder.list_of(identity, offset, START_MS, names, tasks=2)
    state_folder.commit(fs, str(folder), listed)


def _task_of(text: bytes) -> int:
    """No key is in two files."""
    return int(json.loads(text).get("user") in ("u1", "u3"))


def _columns(texts: Sequence[bytes], seqs: Sequence[int]) -> Columns:
    count = len(texts)
    ends = np.cumsum([0, *map(len, texts)]).tolist()
    bits = np.packbits(np.ones(count, np.bool_), bitorder="little").tobytes()
    tss = np.full(count, START_MS).astype("<u8").tobytes()
    data = struct.pack(f"<{count + 1}I", *ends), b"".join(texts), bits
    return Columns(count, np.array(seqs, "<u8").tobytes(), tss, None, None, None, data)


# What it holds.


def rows(log: penstock.Log, now_ms: int | None = None) -> dict[str, dict[str, Json]]:
    """Every row of each feature table, by its key."""
    found = {}
    for table in log.features.tables():
        after: int | None = 0
        of_table: dict[str, Json] = {}
        while after is not None:
            page = log.features.scan(table.name, after, now_ms=now_ms)
            of_table |= {json.dumps(one.key): one.row for one in page.rows}
            after = page.next_after
        found[table.name] = dict(sorted(of_table.items()))
    return found


def _some(found: dict[str, Json]) -> dict[str, Json]:
    step = SHOWN if len(found) > 50 else 1
    return dict(list(found.items())[::step])


def describe(log: penstock.Log, now_ms: int) -> Json:
    accounts = log.table("accounts")
    return {
        "rows": {name: _some(found) for name, found in rows(log, now_ms).items()},
        "parts": [
            {name: getattr(part, name) for name in _PART}
            for table in log.features.tables()
            for part in table.parts
        ],
        "accounts": [[one.key, one.value, one.seq, one.ts] for one in accounts.scan().rows],
        "tables": [[one.name, one.topic, one.key, one.rows, one.skipped] for one in log.tables()],
        "delayed": [
            [one.id, one.topic, one.deliver_at, [[some.data, some.tag] for some in one.records]]
            for one in log.delayed.batches("late")
        ],
        "late": [[record.seq, record.data] for record in log.read("late").records],
    }


def continue_features(log: penstock.Log, clock: FakeClock, snapshot: Path) -> Json:
    """Push what was pushed before, load the snapshot, let the time of delayed records come."""
    said: dict[str, Json] = {}
    pushed = log.features.push("Visit", [_visit(n) for n in (0, 3, VISITS + 4, 900)])
    said["pushed"] = [getattr(pushed, name) for name in _APPENDED]
    loaded = log.features.load("H", str(snapshot))
    said["loaded"] = [loaded.snapshot.seq, loaded.applied.seq, loaded.keys, loaded.is_saved]
    log.append("accounts", [{"id": 3, "n": 3000}])
    clock.advance(4_000_000)
    log.upkeep()
    said["held"] = describe(log, clock.now_ms())
    return said
