"""One Spark session for all tests of a process, one server, and topics of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.client.client import Client
from tests.support import rig, s3, serving, spark_java
from tests.support.serving import Server

Start = Callable[..., Server]
# Of `make crash`: together they take five minutes.
_LONG = ["bench", "cluster", "connect", "declarative", "java", "replays_restart"]
_LONG += ["lake_cli", "lake_crash", "lake_silver", "lake_tables", "lake_verify"]
collect_ignore = [] if rig.IS_FULL else [f"test_{name}.py" for name in _LONG]
# Executors and the planner's workers import the same code as this process does.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(penstock.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
).strip(os.pathsep)


@pytest.fixture(scope="session")
def store() -> Iterator[s3.Store]:
    """Known to Spark's processes by the environment in which Spark was started."""
    with s3.serving() as found:
        yield found


@pytest.fixture(scope="session")
def spark(store: s3.Store) -> Iterator[SparkSession]:
    from penstock.spark import session

    made = session(
        "penstock-tests",
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        conf={
            **spark_java.DRIVER,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": "/nonexistent/warehouse",
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all tests that need no settings; each uses topics of its own."""
    made = Server(tmp_path_factory.mktemp("spark-server")).start()
    yield made
    made.close()


@pytest.fixture
def url(server: Server) -> str:
    return url_of(server)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with penstock.connect(url, timeout_s=serving.DEADLINE_S) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"t-{os.urandom(6).hex()}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a private server: `start(PENSTOCK_MAX_TOPICS="2")`."""
    begun: list[Server] = []

    def begin(**env: str) -> Server:
        made = Server(tmp_path / f"server-{len(begun)}", env)
        begun.append(made)
        return made.start()

    yield begin
    for made in begun:
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failed test shows what the servers said."""
    report = yield
    if report.failed:
        for one in serving.RUNNING:
            report.sections.append((f"server on {one.home.name}", one.said()))
    return report


def url_of(server: Server) -> str:
    host, port = server.connect_to
    return f"http://{host}:{port}"
