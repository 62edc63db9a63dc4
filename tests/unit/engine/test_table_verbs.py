from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument, TableNotFound
from penstock.testing.log import open_memory_log


def test_a_table_is_made_once_listed_and_dropped() -> None:
    with open_memory_log() as log:
        with pytest.raises(TableNotFound):
            log.table("t")
        assert log.table("t", "id", topic="source").topic == "source"
        assert [info.name for info in log.tables("t")] == ["t"]
        assert log.projections.find("table", "t") is not None
        assert log.drop_table("t")
        assert not log.drop_table("t")


@pytest.mark.parametrize(("name", "topic"), [("_t", None), ("", None), ("t", "a b")])
def test_names_are_those_of_topics(name: str, topic: str | None) -> None:
    with open_memory_log() as log, pytest.raises(InvalidArgument, match="name"):
        log.table(name, "id", topic=topic)
