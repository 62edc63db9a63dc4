"""How long a sync takes is measured, and the file is removed."""

from __future__ import annotations

from pathlib import Path

from benchmarks.server_disk import sync_ms


def test_a_sync_takes_time_and_leaves_nothing(tmp_path: Path) -> None:
    assert sync_ms(str(tmp_path)) > 0
    assert not list(tmp_path.iterdir())
