"""R17 on a disk that is really full: the producer is told, nothing it was told of is lost, and the
spool empties itself without a byte of new space."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import Overloaded, StorageError
from penstock.sender.sender import Sender
from tests.support import rig
from tests.support.cuts import LoopDisk
from tests.support.serving import DEADLINE_S, Server
from tests.support.sink import free_port

pytestmark = pytest.mark.root

MIB = 1 << 20
ROOM_BYTES = 11 * MIB  # left for the spool; more than one segment, less than three spares
ROW_BYTES = 3000

# Adds rows until the disk takes no more, says what it was told, and dies as it is bidden.
PRODUCER = """
import json, os, signal, sys
from penstock.errors import Overloaded, StorageError
from penstock.sender.sender import Sender

conf, seed, end = sys.argv[1:]
pad = "x" * int(seed)
sender = Sender(conf)
taken = 0
why = ""
while not why:
    try:
        for number in range(taken, taken + 7):
            sender.append("rows", [number, pad])
        sender.flush()
        taken += 7
    except (StorageError, Overloaded) as error:
        why = str(error)
refused = 0
for _ in range(5):  # and goes on saying so
    try:
        sender.flush()
    except (StorageError, Overloaded):
        refused += 1
print(json.dumps([taken, why, refused]), flush=True)
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
try:
    sender.close()
except StorageError:
    sys.exit(3)  # it says that there are rows which it could not keep
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(rig.on_disk(tmp_path, "disk")) as made:
        yield made


def leave(disk: LoopDisk, room_bytes: int) -> None:
    """Take all of it but so much."""
    found = os.statvfs(disk.mount_point)
    with open(disk.mount_point / "ballast", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - room_bytes)


@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.parametrize("durability", ["memory", "periodic", "append"])
def test_a_full_disk_is_said_and_what_was_taken_arrives_once(
    disk: LoopDisk, tmp_path: Path, durability: str, end: str, report: rig.Report
) -> None:
    leave(disk, ROOM_BYTES)
    row_bytes = random.Random(rig.new_seed()).randrange(ROW_BYTES // 2, 2 * ROW_BYTES)
    conf = (
        f"sf_dir={disk.mount_point}/spool;sf_durability={durability};sf_append_deadline_millis=100;"
        "sf_max_segment_bytes=4m;sf_max_total_bytes=1g;auto_flush=off;"
        "reconnect_max_backoff_millis=200;"
    )
    nobody = f"ws::addr=127.0.0.1:{free_port()};{conf}close_flush_timeout_millis=0;"
    done = subprocess.run(
        [sys.executable, "-c", PRODUCER, nobody, str(row_bytes), end],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == (-signal.SIGKILL if end == "kill" else 3), done.stderr
    taken, why, refused = json.loads(done.stdout)
    assert "No space left" in why
    assert refused == 5
    assert taken * row_bytes > 4 * MIB

    with contextlib.closing(Server(tmp_path / "server").start()) as server:
        host, port = server.address
        with Sender(f"ws::addr={host}:{port};{conf}") as sender:
            assert sender.drain(DEADLINE_S)
            assert sender.status().counters.frames_rejected == 0
            for start in range(0, 700, 70):  # there is room again: what was sent has gone
                persist(sender, lambda start=start: sender.append_batch("later", later(start)))
                persist(sender, sender.flush)
            assert sender.drain(DEADLINE_S)
        with penstock.connect(f"http://{host}:{port}") as client:
            rows = [record.data[0] for record in records(client, "rows")]
            assert rows == list(range(taken))
            assert [record.data[0] for record in records(client, "later")] == list(range(700))
    report(
        f"R17 full disk, {durability}, {end}: {taken} rows of {row_bytes} B were taken and arrived "
        f"once; said {why!r}"
    )


def later(start: int) -> list[object]:
    return [[number, "y"] for number in range(start, start + 70)]


def persist(sender: Sender, call: Callable[[], object]) -> object:
    """What was refused was not taken: once more, until what the server has by then is removed."""
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            return call()
        except (StorageError, Overloaded):
            if time.monotonic() > until:
                raise
        with contextlib.suppress(StorageError, Overloaded):  # it flushes first, and may be refused
            sender.drain(1)


def records(client: penstock.Client, topic: str) -> Iterator[penstock.Record]:
    after = 0
    while True:
        page = client.read(topic, after=after, limit=500)
        yield from page.records
        if page.caught_up or not page.records:
            return
        after = page.records[-1].seq
