"""Fixtures for people who test code that uses Penstock. Pytest finds them by itself.

`penstock_log` is a real log in a temporary directory. `memory_log` is one on a file system in
memory and a clock that stands still; ask for `penstock_fs` or `penstock_clock` beside it to
fail a write or to move the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Pytest imports this file in every run of everybody who has Penstock installed. The rest of
# Penstock is imported by the first test that asks for it.
if TYPE_CHECKING:
    from penstock.engine.engine import Log
    from penstock.testing.clock import FakeClock
    from penstock.testing.fs import MemoryFilesystem


@pytest.fixture
def penstock_log(tmp_path: Path) -> Iterator[Log]:
    """A log in a temporary directory, with its threads, closed when the test ends."""
    from penstock.config import Settings
    from penstock.engine.open_log import open_log

    with open_log(tmp_path / "penstock-data", settings=Settings(background=True)) as log:
        yield log


@pytest.fixture
def penstock_fs() -> MemoryFilesystem:
    """The disk of `memory_log`."""
    from penstock.testing.fs import MemoryFilesystem

    return MemoryFilesystem()


@pytest.fixture
def penstock_clock() -> FakeClock:
    """The clock of `memory_log`. `advance(ms)` moves it."""
    from penstock.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def memory_log(penstock_fs: MemoryFilesystem, penstock_clock: FakeClock) -> Iterator[Log]:
    """A log in memory, without threads, closed when the test ends."""
    from penstock.testing.log import open_memory_log

    with open_memory_log(penstock_fs, penstock_clock) as log:
        yield log
