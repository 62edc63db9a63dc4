"""A standalone Spark cluster on loopback: a master and workers, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from penstock.spark import java
from tests.support import spark_java
from tests.support.serving import eventually

START_DEADLINE_S = 300.0
_HOME = Path(pyspark.__file__).parent
_ADDRESS = re.compile(r"Starting Spark master at (spark://[0-9.]+:[0-9]+)")
_REGISTERED = "Successfully registered with master"


class Node:
    """The master or a worker. Its log is read, since it tells only there what it listens on."""

    def __init__(self, home: Path, name: str, env: Mapping[str, str], *args: str) -> None:
        self._log = home / f"{name}.txt"
        with open(self._log, "wb") as output:
            self.process = subprocess.Popen(
                [str(_HOME / "bin" / "spark-class"), *args],
                env=dict(env),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # its executors are killed with it
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> str:
        def look() -> str:
            if self.process.poll() is not None:
                raise AssertionError(self.said())
            found = re.search(pattern, self.said())
            return found[found.lastindex or 0] if found else ""

        return eventually(look, pattern, START_DEADLINE_S)

    def kill(self) -> None:
        """kill -9, with everything it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()


class Cluster:
    """`master` is what a session is told; `workers` can be killed."""

    def __init__(self, home: Path, count: int) -> None:
        env = os.environ | java.prepare()
        env |= {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(_HOME),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": spark_java.OPTIONS,
            "SPARK_WORKER_DIR": str(home / "work"),
        }
        deploy = "org.apache.spark.deploy"
        self.nodes = [
            Node(
                home,
                "master",
                env,
                f"{deploy}.master.Master",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            )
        ]
        self.master = self.nodes[0].wait_for(_ADDRESS.pattern)
        self.workers = []
        for number in range(count):
            node = Node(
                home,
                f"worker-{number}",
                env,
                f"{deploy}.worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                *("--memory", "700m", self.master),
            )
            self.workers.append(node)
            self.nodes.append(node)
        for node in self.workers:
            node.wait_for(_REGISTERED)

    def close(self) -> None:
        for node in reversed(self.nodes):
            node.kill()


@contextlib.contextmanager
def cluster(home: Path, workers: int = 2) -> Iterator[Cluster]:
    made = Cluster(home, workers)
    try:
        yield made
    finally:
        made.close()
