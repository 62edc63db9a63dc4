"""A server under test is started, waited for, and gone afterwards."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.server_process import DidNotStart, listening, process
from tests.support.sink import free_port

LISTENS = """
import socket, sys, threading
held = socket.create_server(("127.0.0.1", int(sys.argv[1])))
threading.Event().wait()
"""


STAYS = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + LISTENS


def test_it_runs_while_inside_and_not_after(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", LISTENS, str(port), str(tmp_path)]

    with process("listens", command, str(tmp_path), port=listening(port)) as running:
        os.kill(running.pid, 0)

    assert running.port == port
    assert running.command.endswith("PORT DIR")
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


def test_a_second_ctrl_c_does_not_leave_it_running(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", STAYS, str(port)]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            process("stays", command, str(tmp_path), port=listening(port)) as running,
        ):
            # While the end of the process is waited for: it ignores SIGTERM.
            signal.setitimer(signal.ITIMER_REAL, 0.3)
    finally:
        signal.signal(signal.SIGALRM, before)

    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


def test_one_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such luck')"]

    with (
        pytest.raises(DidNotStart, match="no such luck"),
        process("ends", command, str(tmp_path), port=lambda: None),
    ):
        pass
