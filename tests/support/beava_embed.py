"""beava's client with a process that it starts: ours, or its own server, which its package has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import beava as bv
import pytest
from beava import _embed

import penstock
from tests.support.serving import DEADLINE_S

COMMAND = [sys.executable, "-m", "penstock.cli.beava"]
PATH = {"PYTHONPATH": str(Path(penstock.__file__).parents[1])}


def use_our_binary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write what BEAVA_BINARY may be, any program that runs ours, and set it."""
    script = folder / "beava"
    script.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("BEAVA_BINARY", str(script))
    monkeypatch.setenv("PYTHONPATH", PATH["PYTHONPATH"])
    return script


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client waits 5 s for the ports, and a test may be on a machine that is slower."""
    monkeypatch.setattr(_embed.spawn_embedded_server, "__defaults__", (DEADLINE_S,))


@contextmanager
def embedded(*, test_mode: bool = False) -> Iterator[bv.App]:
    """The client with a process that it started. It leaves the pipe to it open."""
    with bv.App(timeout=DEADLINE_S, test_mode=test_mode) as app:
        process = app._transport._proc
        yield app
    assert process.poll() is not None
    process.stdout.close()
