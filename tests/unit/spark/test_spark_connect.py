"""A metric of PySpark's that its own client of pipelines takes for a failure."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from penstock.spark.spark_connect import hide_profile_metric

PROFILE = SimpleNamespace(name="__python_accumulator__")
OTHER = SimpleNamespace(name="counted")


class Client:
    def _execute_and_fetch_as_iterator(self, request: str, *, most: int) -> Iterator[Any]:
        yield from [{"asked": request}, PROFILE, OTHER, {"most": most}, PROFILE]


def session(client: object) -> Any:
    return SimpleNamespace(_client=client)


def answers(client: Client) -> list[Any]:
    return list(client._execute_and_fetch_as_iterator("run", most=3))


def test_that_metric_is_left_out_and_nothing_else() -> None:
    client = Client()
    hide_profile_metric(session(client))
    assert answers(client) == [{"asked": "run"}, OTHER, {"most": 3}]


def test_a_session_may_be_registered_twice() -> None:
    client = Client()
    hide_profile_metric(session(client))
    first = client._execute_and_fetch_as_iterator
    hide_profile_metric(session(client))
    assert client._execute_and_fetch_as_iterator is first


def test_a_session_without_connect_is_left_alone() -> None:
    hide_profile_metric(session(object()))
    hide_profile_metric(SimpleNamespace())  # type: ignore[arg-type]
