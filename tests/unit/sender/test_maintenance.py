"""The thread behind a sender goes on whatever fails, and ends when it is told to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.errors import Closed
from penstock.sender.maintenance import SenderMaintenance


class Parts:
    """A spool and the slots of others; the upkeep fails as it is told."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.pauses: list[float | None] = []
        self.rounds = threading.Semaphore(0)
        self.maintenance: SenderMaintenance | None = None

    def maintain(self) -> float | None:
        if self.failures:
            raise self.failures.pop(0)
        return 7.0

    def check(self) -> float | None:
        return self.maintain()

    def wait_for_work(self, timeout_s: float | None) -> bool:
        self.pauses.append(timeout_s)
        if len(self.pauses) == 4:
            assert self.maintenance is not None
            self.maintenance.stop()
        return True


def run(parts: Any, flush_s: float | None = None) -> list[float | None]:
    """The pauses of four rounds."""
    parts.maintenance = SenderMaintenance(parts, parts, lambda: flush_s)
    parts.maintenance.start()
    parts.maintenance.join(120.0)
    found: list[float | None] = parts.pauses
    return found


@pytest.mark.parametrize("failure", [Closed("gone"), ValueError("a bug"), OSError(5, "disk")])
def test_it_goes_on_whatever_fails(failure: Exception) -> None:
    pauses = run(Parts(failure, failure))

    assert len(pauses) == 4
    assert pauses[1:] == [7.0, 7.0, 7.0]


def test_it_rests_until_the_first_of_them_wants_it() -> None:
    assert run(Parts(), 3.0) == [3.0] * 4
    assert run(Parts(), None) == [7.0] * 4
