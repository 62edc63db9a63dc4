"""Scratch folders of benchmarks and demos: their place, their file system, their removal.

A scratch folder is created in the system's temporary folder or in the one given with `--dir`, never
in the current directory. It is removed at the end, also after an error, Ctrl-C, SIGTERM and SIGHUP.
A caller that starts processes in it ends them inside the `with` block.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from penstock.cli import output
from penstock.storage.mounts import kind_of_filesystem

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)  # Python turns SIGINT into an exception itself
_REMOVALS_MAX: Final = 5
_REMOVAL_WAIT_S: Final = 0.2


@contextlib.contextmanager
def scratch(directory: Path | None, name: str) -> Iterator[str]:
    """A new folder `penstock-NAME-…` below `directory`, or below the system's temporary folder.

    Warns if it is in memory.
    """
    parent = os.path.abspath(directory or tempfile.gettempdir())
    kind = kind_of_filesystem(parent)
    if kind in IN_MEMORY:
        output.warning(
            f"the scratch folder {parent} is on {kind}: a sync costs nothing in memory, so figures "
            "about durability mean nothing; pass --dir with a folder on a real disk"
        )
    with _handling(_ENDING, _exit):
        path = tempfile.mkdtemp(prefix=f"penstock-{name}-", dir=parent)
        try:
            yield path
        finally:
            # A second Ctrl-C must not leave half of the folder behind.
            with _handling((signal.SIGINT, *_ENDING), signal.SIG_IGN):
                remove(path)


def remove(path: str) -> None:
    """Remove a folder with everything in it. Warns if that is not possible.

    A process that is being killed may still add files, so removal is tried several times.
    """
    for _ in range(_REMOVALS_MAX):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
        threading.Event().wait(_REMOVAL_WAIT_S)
    output.warning(f"cannot remove the scratch folder {path}; remove it by hand")


@contextlib.contextmanager
def _handling(signals: tuple[signal.Signals, ...], handler: Any) -> Iterator[None]:
    """Give signals this handler inside the block. A signal that is ignored, as SIGHUP is after
    `nohup`, stays ignored. Python sets handlers in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # as shells count
