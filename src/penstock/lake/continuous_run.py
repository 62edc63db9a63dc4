"""Runs a pipeline repeatedly until it is stopped. Waits after errors that pass by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.errors import TopicNotFound
from penstock.lake import spark_errors

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0


class Stop(Protocol):
    """An event such as `threading.Event`."""

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether the event is set."""


def run_until_stopped(
    work: Callable[[], None],
    stop: Stop,
    *,
    interval_s: float,
    path: str,
    report: Callable[[str], None],
) -> None:
    """Repeat `work` until `stop` is set. A transient error is reported and followed by a pause that
    doubles each time. Any other error is raised."""
    failures = 0
    pause_s = interval_s
    while True:
        try:
            work()
        except Exception as error:
            fault = spark_errors.unwrapped(error, path)
            # The topic was there when the run began, so it was dropped since.
            was_dropped = fault is not error and isinstance(fault, TopicNotFound)
            if not was_dropped and not spark_errors.is_passing(fault):
                if fault is error:
                    raise
                raise fault from None
            pause_s = min(PAUSE_MAX_S, PAUSE_S * 2**failures)
            failures = min(failures + 1, 16)
            report(f"{fault}; the next run starts in {pause_s:g} s")
        else:
            failures, pause_s = 0, interval_s
        if stop.wait(pause_s):
            return
