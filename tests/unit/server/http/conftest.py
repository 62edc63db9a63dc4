"""What tests of requests share."""

from __future__ import annotations

import pytest

from penstock.server.http import reads
from tests.unit.server.support import PATIENCE_S


@pytest.fixture
def wait_ms(monkeypatch: pytest.MonkeyPatch) -> int:
    """For polls that must not end by themselves, on however busy a machine."""
    longest_ms = int(10 * PATIENCE_S * 1000)
    monkeypatch.setattr(reads, "_WAIT_MS_MAX", longest_ms)
    return longest_ms
