"""Fakes of the disk and the clock, for our tests and for yours."""

from __future__ import annotations

from penstock.testing.clock import FakeClock
from penstock.testing.crash import CrashChoices, Fate, Pending, PowerLost
from penstock.testing.fs import Fault, MemoryFilesystem

__all__ = [
    "CrashChoices",
    "FakeClock",
    "Fate",
    "Fault",
    "MemoryFilesystem",
    "Pending",
    "PowerLost",
]
