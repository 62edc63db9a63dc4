"""What tests of the clients share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.client.support import DEADLINE_S, SIDES, Side


@pytest.fixture(autouse=True, scope="module")
def kept_connections_stay_young() -> Iterator[None]:
    """A busy machine may pause a test for longer than a client keeps an idle connection."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("http_connection", "async_connection"):
            patch.setattr(f"penstock.client.{module}.IDLE_S", DEADLINE_S)
        yield


@pytest.fixture(params=SIDES, ids=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> type[Side]:
    return request.param
