"""What a session over Spark Connect needs beside the data source.

Each time a Python data source is planned, PySpark 4.3 reports the (empty) results of its profiler
as a metric of the command, and its own client for declarative pipelines takes every answer that it
does not know for a failure: a run that is complete ends with an error. The client has read that
metric by the time it passes it on, so nothing is lost when it goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

_PROFILE: Final = "__python_accumulator__"
_ANSWERS: Final = "_execute_and_fetch_as_iterator"

Answers = Callable[..., Iterator[Any]]


def quieten(spark: SparkSession) -> None:
    """Let nobody see the metric. No matter for a session that is not over Connect."""
    client = getattr(spark, "_client", None)
    answers = getattr(client, _ANSWERS, None)
    if answers is not None and not isinstance(answers, Without):
        setattr(client, _ANSWERS, Without(answers))


class Without:
    """The answers to a command but for that metric."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def __call__(self, *args: Any, **named: Any) -> Iterator[Any]:
        for answer in self._answers(*args, **named):
            if getattr(answer, "name", None) != _PROFILE:
                yield answer
