"""Write the golden directories of a commit, with the code of that commit.

Check the commit out elsewhere, then run, from the top of this checkout:

    PYTHONPATH=<checkout of the commit>/src PENSTOCK_PURE=1 \\
        python scripts/make_golden_directories.py tests/golden/<commit> [closed killed …]

It writes data directories with their cold tiers, one closed and one whose process was killed, one
with tables and features and a snapshot of features beside it, a lake, and the slot of a sender with
the directory of its server, each as an archive. Beside them
are JSON files: what the code of that commit reads there, and what it answers and holds after the
`continue_…` functions on a copy. Golden directories are made once. They are never made again to
let a test pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import penstock  # noqa: E402
from penstock.storage.fs import OsFile, OsFilesystem  # noqa: E402
from penstock.testing import FakeClock  # noqa: E402
from tests.support import golden_directories as directories  # noqa: E402
from tests.support import golden_features as features  # noqa: E402
from tests.support import golden_lake as lakes  # noqa: E402
from tests.support import golden_sender as senders  # noqa: E402
from tests.support.golden_directories import SameBoot, open_home  # noqa: E402

# Files remember some paths, so everything is made at a place that exists on no machine for long.
WORK = Path("/tmp/penstock-golden")
PART_1, PART_2 = "first part of the interrupted batch", "second part of the interrupted batch"
LEFT_OUT = {".penstock.lock", ".lock", "LOCK", "cache", "port", "watermark"}


class KillingFile(OsFile):
    """Ends the process half-way through the write of the second part of a batch."""

    def write_at(self, data: Any, offset: int) -> None:
        self._kill_amid(bytes(data), offset)
        super().write_at(data, offset)

    def write_parts_at(self, parts: Any, offset: int, **more: Any) -> None:
        self._kill_amid(b"".join(parts), offset)
        super().write_parts_at(parts, offset, **more)

    def _kill_amid(self, data: bytes, offset: int) -> None:
        if PART_2.encode() in data and PART_1.encode() not in data:
            super().write_at(data[: len(data) // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)


class KillingFilesystem(SameBoot):
    def create(self, path: str) -> OsFile:
        return _killing(super().create(path))

    def open(self, path: str, *, writable: bool = False) -> OsFile:
        return _killing(super().open(path, writable=writable))


def _killing(file: OsFile) -> OsFile:
    return KillingFile(file._fd, file.path)


# Data directories.


def make_closed() -> None:
    home, clock = WORK / "closed", FakeClock()
    home.mkdir()
    with open_home(home, clock, SameBoot()) as log:
        directories.fill(log, clock)
    expect("closed", "closed", clock.now_ms(), OsFilesystem())


def make_killed() -> None:
    (WORK / "killed").mkdir()
    child = subprocess.run([sys.executable, __file__, "--killed"], stdout=subprocess.PIPE)
    if child.returncode != -signal.SIGKILL:
        raise AssertionError(f"the process ended with {child.returncode}")
    *acknowledged, now_ms = map(json.loads, child.stdout.splitlines())
    expect("killed", "killed", now_ms, SameBoot(), acknowledged)
    # The machine may have lost what was not synced: reserved seqs are not used again.
    expect("killed", "rebooted", now_ms, OsFilesystem(), acknowledged)


def be_killed() -> None:
    """Fill a directory, leave recovery something to do, and die amid a batch. What was
    acknowledged since the last copy, and the time, are printed before."""
    clock = FakeClock()
    log = open_home(WORK / "killed", clock, KillingFilesystem())
    directories.fill(log, clock)
    # Nobody reads the destinations any more: recovery or the next run copies these.
    for topic in ("orders", "trimmed", "class.ephemeral", "class.memory", "class.disk", "late"):
        values = [{"id": f"owed {n}"} for n in range(3)]
        answer = log.append(topic, values, tag="eu-owed", idempotency_key=f"owed-{topic}")
        if topic != "class.ephemeral":
            print(json.dumps([topic, answer.first_seq, values]))
    log.delete("orders", seqs=[53])
    print(json.dumps(clock.now_ms()), flush=True)
    log.append_many(
        [
            ("class.fsync", [{"part": PART_1}]),
            ("class.disk", [{"part": PART_2}]),
            ("orders", [{"part": "third"}]),
        ],
        idempotency_key="interrupted",
    )


def expect(
    name: str, case: str, now_ms: int, fs: OsFilesystem, acknowledged: Sequence[Any] = ()
) -> None:
    """What this code reads in a copy of the directory, and how it goes on there."""
    home = Path(shutil.copytree(WORK / name, WORK / f"{case}-copy"))
    clock = FakeClock(now_ms)
    with open_home(home, clock, fs) as log:
        held = directories.describe(log)
        for topic, first, values in acknowledged:
            data = {seq: data for seq, *_, data in held["topics"][topic]["records"]}
            if [data[first + n] for n in range(len(values))] != values:
                raise AssertionError(f"{topic}: {values} from {first} are not there")
        continued = directories.continue_log(log, clock)
    write(case, {"now_ms": now_ms, "held": held, "continued": continued})


# Tables and features.


def make_features() -> None:
    home, clock, fs = WORK / "features", FakeClock(features.BEGIN_MS), SameBoot()
    open_home = features.open_home
    WORK.joinpath("filled").mkdir()
    with open_home(WORK / "filled", clock, fs) as log:
        features.fill(log, clock, WORK / "filled")
        shutil.copytree(WORK / "filled", home)  # as a kill would leave it now
    for state in home.rglob("state.bin"):  # and amid two calls
        state.with_name("evicted.tmp").touch()
    copy = Path(shutil.copytree(home, WORK / "features-copy"))
    now_ms = clock.now_ms()
    with open_home(copy, clock, fs) as log:
        tails = features.tails(log)
        held = features.describe(log, now_ms)
        if not any(part.evicted for one in log.features.tables() for part in one.parts):
            raise AssertionError("no key was moved to disk")
        continued = features.continue_features(log, clock, copy / "snapshot")
    write("features", {"now_ms": now_ms, "tails": tails, "held": held, "continued": continued})


# The sender.


def make_sender() -> None:
    home = WORK / "sender"
    home.mkdir()
    child = subprocess.run([sys.executable, __file__, "--sender"])
    if child.returncode != -signal.SIGKILL:
        raise AssertionError(f"the process ended with {child.returncode}")
    # As a power cut leaves it: frames are synced, the last acknowledgements are not.
    shutil.copy(home / "watermark", home / "spool" / senders.SENDER_ID / ".ack-watermark")

    copy = Path(shutil.copytree(home, WORK / "sender-copy"))
    (copy / "port").unlink()
    slot = senders.describe_slot(copy / "spool")
    with served(copy) as address:
        with penstock.connect(f"http://{address}") as client:
            server = senders.describe_server(client)
        continued = senders.continue_sender(address, copy / "spool")
    write("sender", {"slot": slot, "server": server, "continued": continued})


def be_killed_sending() -> None:
    """Deliver, then go on while the server is down, and die."""
    home = WORK / "sender"
    spool = home / "spool"
    with contextlib.ExitStack() as server:
        address = server.enter_context(served(home))
        sender = penstock.Sender(senders.conf(address, spool))
        with penstock.connect(f"http://{address}") as client:
            senders.fill_acknowledged(sender, client)
        shutil.copy(spool / senders.SENDER_ID / ".ack-watermark", home / "watermark")
        senders.fill_repeated(sender)
    senders.fill_waiting(sender)
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def served(home: Path) -> Iterator[str]:
    """`penstock serve` over home/data, until the block ends; its address."""
    port_file = home / "port"
    port_file.unlink(missing_ok=True)
    env = os.environ | senders.SERVER | {"PYTHONPATH": str(Path(penstock.__file__).parents[1])}
    command = [sys.executable, __file__, "--serve", str(home / "data"), str(port_file)]
    server = subprocess.Popen(command, env=env)
    try:
        pause = threading.Event()
        while not port_file.exists() or not port_file.read_text().strip():
            if server.poll() is not None:
                raise AssertionError(f"the server ended with {server.returncode}")
            pause.wait(0.05)
        yield port_file.read_text().strip()
    finally:
        server.terminate()
        server.wait()


def serve(data: str, port_file: str) -> None:
    from penstock.cli.main import main

    OsFilesystem.boot_id = SameBoot.boot_id  # type: ignore[method-assign]
    sys.argv = ["penstock", "serve", data, "--port", "0", "--port-file", port_file, "--quiet"]
    main()


# The lake.


def make_lake() -> None:
    home, clock = WORK / "lake", FakeClock()
    home.mkdir()
    (home / "pipeline.toml").write_text(lakes.PROJECT, encoding="utf-8")
    (home / "revenue.sql").write_text(lakes.SQL, encoding="utf-8")
    with lakes.open_log(home, clock, SameBoot()) as log:
        lakes.fill(log, clock, pipeline(home))
    copy = Path(shutil.copytree(home, WORK / "lake-copy"))
    held = lakes.rows(copy / "lake")
    with lakes.open_log(copy, FakeClock(clock.now_ms())) as log:
        continued = lakes.continue_lake(log, pipeline(copy), copy / "lake")
    write("lake", {"now_ms": clock.now_ms(), "held": held, "continued": continued})


def make_spark() -> None:
    """What Spark reads in the cold tier alone, and in the data directory beside it."""
    from penstock.spark import session

    home = Path(shutil.copytree(WORK / "closed", WORK / "spark-copy"))
    spark = session("golden", master="local[1]")
    found = {
        place: {topic: lakes.spark_seqs(spark, home / place, topic) for topic in lakes.READ}
        for place in ("cold", "data")
    }
    spark.stop()
    write("spark", found)


def pipeline(home: Path) -> Callable[[], None]:
    def run() -> None:
        command = [sys.executable, "-m", "penstock.cli.main", "pipeline", "run", str(home)]
        subprocess.run(command, check=True)

    return run


# Files.


def write(case: str, expected: Any) -> None:
    (WORK / f"{case}.json").write_text(lines(expected) + "\n", encoding="utf-8")


def lines(value: Any, indent: str = "") -> str:
    """JSON in which a record, or whatever holds no further lists, is one line."""
    inner = f"\n{indent} "
    match value:
        case {} if any(isinstance(one, dict | list) for one in value.values()):
            found = [f"{json.dumps(k)}: {lines(v, indent + ' ')}" for k, v in value.items()]
            return f"{{{inner}{f',{inner}'.join(found)}\n{indent}}}"
        case [dict() | list(), *_]:
            found = [lines(one, indent + " ") for one in value]
            return f"[{inner}{f',{inner}'.join(found)}\n{indent}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def keep(target: Path) -> None:
    """Archive what was made, without locks, caches and the files of this script."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("closed", "killed", "features", "sender", "lake"):
        if not WORK.joinpath(name).exists():
            continue
        with tarfile.open(target / f"{name}.tar.xz", "w:xz") as archive:
            for path in sorted(WORK.joinpath(name).rglob("*")):
                inside = path.relative_to(WORK)
                if not LEFT_OUT & set(inside.parts) and path.suffix != ".crc":
                    archive.add(path, inside, recursive=False, filter=_anonymous)
    for path in WORK.glob("*.json"):
        shutil.copy(path, target)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Of nobody, and of no time."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


MAKERS = {
    "closed": make_closed,
    "killed": make_killed,
    "features": make_features,
    "sender": make_sender,
    "lake": make_lake,
    "spark": make_spark,  # after closed
}


def main(arguments: list[str]) -> None:
    match arguments:
        case ["--killed"]:
            be_killed()
        case ["--sender"]:
            be_killed_sending()
        case ["--serve", data, port_file]:
            serve(data, port_file)
        case [target, *names] if set(names) <= set(MAKERS):
            print(f"with the code in {Path(penstock.__file__).parent}")
            WORK.mkdir()
            for name in names or MAKERS:
                MAKERS[name]()
            keep(Path(target))
            shutil.rmtree(WORK)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
