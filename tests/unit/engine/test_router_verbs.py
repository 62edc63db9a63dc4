"""The verbs of routers are members of the log; what they do is in `test_routers`."""

from __future__ import annotations

import pytest

from penstock.engine.engine import Log
from penstock.errors import RouterNotFound


def test_a_router_is_created_found_listed_and_dropped(memory_log: Log) -> None:
    made = memory_log.create_router("r", "s", "t", filter="x")
    memory_log.append("s", [1], tag="x")

    assert (made.source, made.dest) == ("s", "t")
    assert memory_log.router("r").forwarded_total == 1
    assert [one.name for one in memory_log.routers(source="s")] == ["r"]
    assert memory_log.routers(dest="s") == []
    assert (memory_log.drop_router("r"), memory_log.drop_router("r")) == (True, False)
    with pytest.raises(RouterNotFound):
        memory_log.router("r")
