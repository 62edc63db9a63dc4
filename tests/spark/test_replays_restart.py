"""R20: the server that remembers is started anew, and one that does not is found out."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from tests.spark.conftest import Start, url_of
from tests.spark.test_replays import PATHS, Copying, flaws, numbers, replayed
from tests.support import serving
from tests.support.serving import Server
from tests.support.sink import free_port


def test_the_server_remembers_over_a_restart_and_a_kill(
    spark: SparkSession, start: Start, topic: str, tmp_path: Path
) -> None:
    server = start(PENSTOCK_PORT=str(free_port()))
    copying = Copying(spark, tmp_path, url_of(server), topic)
    copying.add()
    copying.run()
    server.stop()
    server.start()
    copying.forget_commit()
    copying.run()
    server.kill()
    server.start()
    copying.forget_commit()
    copying.run()

    with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        assert not flaws(numbers(client, topic), copying.expected)


def test_a_server_that_forgets_is_found_out(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    """The rig itself: without the numbers of producers, a replay adds every row again."""
    env = {"RIG_MUTANT": "frames-taken-twice", "PYTHONPATH": PATHS}
    server = Server(tmp_path / "server", env, module="tests.support.mutant_server").start()
    try:
        copying = Copying(spark, tmp_path, url_of(server), topic)
        replayed(copying, 1)
        with penstock.connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
            found = numbers(client, topic)
    finally:
        server.close()

    assert flaws(found, copying.expected) == f"{len(copying.expected)} twice, 0 missing, 0 strange"
