"""The Java of a benchmark writes below its folder and ends before the folder is removed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import spark_java
from benchmarks.spark_java import ended, writes_below

WAITS = "import sys; print('here', flush=True); sys.stdin.read()"
STAYS = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"


def start(code: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"here\n"
    return child


def is_alive(child: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{child.pid}/stat").exists()


def close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()


def interrupted() -> subprocess.Popen[bytes]:
    """Ctrl-C while a process runs that nobody ends."""
    with contextlib.suppress(KeyboardInterrupt), ended():
        child = start(WAITS)
        raise KeyboardInterrupt
    return child


def test_every_place_is_below_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with a blank"
    folder.mkdir()

    settings = writes_below(str(folder))

    assert all(str(folder) in value for value in settings.values())
    assert f'-Djava.io.tmpdir="{folder}/spark"' in settings.values()
    assert (folder / "spark").is_dir()


def test_what_was_started_inside_is_ended_and_nothing_else() -> None:
    before = start(WAITS)
    try:
        inside = interrupted()

        assert is_alive(before)
        assert not is_alive(inside)
        close(inside)
    finally:
        close(before)


def test_a_process_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_java, "_STOP_TIMEOUT_S", 0.1)

    with ended():
        child = start(STAYS)

    assert not is_alive(child)
    close(child)
