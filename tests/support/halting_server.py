"""`penstock` whose loads of snapshots halt half-way: for tests of what goes on beside a load.

A load stands still when the state is restored, and again when what came after it is folded for the
first time. There it makes the file NAME in its working directory and waits for the file NAME.go.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from penstock.cli.main import main
from penstock.features import snapshot_load
from penstock.projections.staged_state import StagedState

DEADLINE_S = 120.0
RESTORED = "restored"
FOLDED = "folded"
_restore, _catch_up = snapshot_load._restore, StagedState.catch_up


def halt(name: str) -> None:
    Path(name).touch()
    until = time.monotonic() + DEADLINE_S
    while not Path(f"{name}.go").exists():
        if time.monotonic() > until:
            raise AssertionError(f"nobody made {name}.go")
        threading.Event().wait(0.01)


def restore(*args: Any) -> None:
    _restore(*args)
    halt(RESTORED)


def catch_up(staged: StagedState) -> int:
    count = _catch_up(staged)
    if not Path(FOLDED).exists():  # the second time nobody else may fold
        halt(FOLDED)
    return count


if __name__ == "__main__":
    snapshot_load._restore = restore
    StagedState.catch_up = catch_up  # type: ignore[method-assign]
    main()
