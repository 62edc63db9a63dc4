"""Servers for the tests: one for everybody, private ones where settings matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server.support import Api, api_of, new_name
from tests.support import serving
from tests.support.rig import ROOT
from tests.support.serving import Server

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all tests that need no settings; each uses names of its own."""
    server = Server(tmp_path_factory.mktemp("shared")).start()
    yield server
    server.close()


@pytest.fixture
def api(shared: Server) -> Api:
    return api_of(shared)


@pytest.fixture
def topic() -> str:
    return new_name()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a private server: `start(PENSTOCK_MAX_TOPICS="2")`; `args`, `until` as in Server."""
    begun: list[Server] = []

    def begin(*args: str, until: str = "ready", **env: str) -> Server:
        server = Server(tmp_path / f"server-{len(begun)}", env, args=args)
        begun.append(server)
        return server.start(until=until)

    yield begin
    for server in begun:
        server.close()


@pytest.fixture(scope="session")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Another that is shared, which gives up on no peer that is paused."""
    server = patiently(tmp_path_factory.mktemp("patient")).start()
    yield server
    server.close()


def patiently(home: Path, **env: str) -> Server:
    """A server whose fixed times for a peer do not run out."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return Server(home, {"PYTHONPATH": paths} | env, module="tests.support.patient_server")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failed test shows what the servers said."""
    report = yield
    if report.failed:
        for server in serving.RUNNING:
            report.sections.append((f"server on {server.home.name}", server.said()))
    return report
