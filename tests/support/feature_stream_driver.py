"""A driver of `feature_stream` to be killed: `python -m tests.support.feature_stream_driver JSON`.

It dies by SIGKILL, with its JVM, when a batch is about to be committed or right after that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from penstock.projections import state_folder
from penstock.spark import feature_stream, session
from tests.support import feature_history, spark_java

BEFORE, AFTER = "before", "after"  # the commit


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = session(
        "penstock-features",
        master="local[2]",
        driver_memory="512m",
        shuffle_partitions=2,
        conf={**spark_java.DRIVER, "spark.sql.warehouse.dir": told["folder"] + "-warehouse"},
    )
    jvm = spark.sparkContext._jvm
    pid: int = jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def die() -> None:
        os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    state_folder.commit = killing(told["place"], told["batch"], die)
    source = {"path": told["log"], "maxRecordsPerTrigger": "100"}
    stream = feature_stream(spark, feature_history.document(), "T", source, told["folder"])
    stream.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def killing(place: str, batch: int, die: Callable[[], None]) -> Callable[..., None]:
    """The commit of a state, with a kill beside that of one batch."""
    commit = state_folder.commit

    def replaced(fs: Any, path: str, state: state_folder.StateList) -> None:
        is_due = state.more["batch"] == batch
        if is_due and place == BEFORE:
            die()
        commit(fs, path, state)
        if is_due and place == AFTER:
            die()

    return replaced


if __name__ == "__main__":
    main()
