"""Fixtures of the rigs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import rig


@pytest.fixture
def report(
    record_property: Callable[[str, object], None], capfd: pytest.CaptureFixture[str]
) -> rig.Report:
    """Tell people a figure and a seed, also when the test passes."""

    def tell(line: str) -> None:
        record_property("rig", line)
        with capfd.disabled():
            rig.say(line)

    return tell
