"""A workaround for sessions over Spark Connect.

Each time a Python data source is planned, PySpark 4.3 reports the (empty) results of its profiler
as a metric of the command. Its client for declarative pipelines treats each unknown answer as a
failure, so a complete run ends with an error. The client has processed the metric before it passes
it on, so the metric can be dropped there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

_PROFILE: Final = "__python_accumulator__"
_ANSWERS: Final = "_execute_and_fetch_as_iterator"

Answers = Callable[..., Iterator[Any]]


def hide_profile_metric(spark: SparkSession) -> None:
    """Drop the metric. Has no effect on a session without Spark Connect."""
    client = getattr(spark, "_client", None)
    answers = getattr(client, _ANSWERS, None)
    if answers is not None and not isinstance(answers, WithoutProfileMetric):
        setattr(client, _ANSWERS, WithoutProfileMetric(answers))


class WithoutProfileMetric:
    """The answers to a command without that metric."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def __call__(self, *args: Any, **named: Any) -> Iterator[Any]:
        for answer in self._answers(*args, **named):
            if getattr(answer, "name", None) != _PROFILE:
                yield answer
