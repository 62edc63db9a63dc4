"""What every test run shares: which long or privileged tests take part, and hypothesis settings.

`PENSTOCK_RIG=full` runs the long variants; without it they are left out of the run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

RIG_IS_FULL = os.environ.get("PENSTOCK_RIG") == "full"

# No deadline: a shared machine may pause any example, and no test of ours is about time.
settings.register_profile("short", deadline=None, print_blob=True, max_examples=45)
settings.register_profile("full", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile("full" if RIG_IS_FULL else "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long variants out unless they were asked for."""
    if RIG_IS_FULL:
        return
    long = [item for item in items if item.get_closest_marker("crash")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("crash")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A machine without root or loop devices skips on a laptop and fails in CI."""
    if item.get_closest_marker("root") is None:
        return
    if os.geteuid() == 0 and Path("/dev/loop-control").exists():
        return
    reason = "needs root and loop devices"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
