"""The data directory that every later version must still read. Run as a module to write the
current format's anew: only ever for a new version, never to make a test pass."""

from __future__ import annotations

import shutil
from pathlib import Path

import penstock
from penstock.testing import FakeClock, MemoryFilesystem

HERE = Path(__file__).resolve().parent.parent / "golden"
ROOT = "/log"


def written() -> dict[str, bytes]:
    """A small log with something of everything: segment, sidecar, snapshots, WAL tail, deletes,
    an evicted prefix, a key, meta, node and tag."""
    fs = MemoryFilesystem()
    settings = penstock.Settings(background=False, wal_shards=1, wal_file_bytes=4096)
    log = penstock.open(
        ROOT, fs=fs, clock=FakeClock(), settings=settings, random_bytes=lambda n: b"\x07" * n
    )
    with log:
        log.create("orders", durability="fsync")
        log.create("clicks", cap_records=3)
        record = penstock.Record({"n": 1}, tag="eu", node="till-1", meta={"by": "ann"})
        log.append("orders", [record, {"n": 2}, penstock.Record({"n": 3}, tag="us")])
        log.append("clicks", [1, 2, 3, 4, 5])
        log.compact()
        log.delete("orders", seqs=[2])
        log.append("orders", [{"n": 4}], idempotency_key="k-4", tag="eu")
        log.append("clicks", ["a\u00e9"])
    return {path.removeprefix(f"{ROOT}/"): fs.read(path) for path in fs.paths()}


if __name__ == "__main__":
    target = HERE / "v1" / "log"
    shutil.rmtree(target, ignore_errors=True)
    for name, data in written().items():
        if not name.endswith(".lock"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
