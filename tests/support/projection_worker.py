"""A process with projections that is to be killed: `projection_worker DIRECTORY SEED`."""

from __future__ import annotations

import sys
from random import Random

import penstock
from penstock import Settings
from penstock.types import Record
from tests.support.projection_rig import DEFINITIONS, make_toy

NAME = "t"


def run(path: str, seed: str) -> None:
    """Append, fold and save until killed. Prints `ready` when it begins."""
    random = Random(seed)
    settings = Settings(
        projection_interval_ms=random.choice((1, 5, 20)),
        checkpoint_wal_bytes=1 << 16,
        wal_file_bytes=1 << 16,
        upkeep_interval_ms=5,
    )
    with penstock.open(path, settings=settings) as log:
        log.create(NAME, durability=random.choice(("disk", "fsync")))
        log.table(NAME, key="k")
        host = log.projections
        host.register("toy", make_toy)
        if host.find("toy", "sum") is None:
            host.create("toy", "sum", NAME, DEFINITIONS[0])
        number = log.topic(NAME).head_seq
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            records = []
            for _ in range(random.randint(1, 50)):
                number += 1
                value = {"k": f"{random.randint(0, 200)}", "n": number}
                is_deleted = random.random() < 0.2
                records.append(Record(data=value, meta={"deleted": True}) if is_deleted else value)
            log.append(NAME, records)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
