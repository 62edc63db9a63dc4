"""Servers to attack: the fixtures of the contract tests, and one server with keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.conftest import (  # noqa: F401 - found here by pytest
    Start,
    api,
    pytest_runtest_makereport,
    shared,
    start,
    topic,
)
from tests.server.support import Api, api_of
from tests.support.serving import Server

FULL = "full-access-key"
KEYS = {
    "ann": "ann:read+write+admin:ann-",
    "ben": "ben:read+write+admin:ben-",
    "reader": "reader:read",
    "writer": "writer:write",
}


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with keys: FULL may everything, ann and ben are two tenants."""
    keys = ",".join([FULL, *KEYS.values()])
    server = Server(tmp_path_factory.mktemp("secured"), {"PENSTOCK_API_KEYS": keys}).start()
    yield server
    server.close()


@pytest.fixture
def full(secured: Server) -> Api:
    return api_of(secured, FULL)


@pytest.fixture
def ann(secured: Server) -> Api:
    return api_of(secured, "ann")


@pytest.fixture
def ben(secured: Server) -> Api:
    return api_of(secured, "ben")
