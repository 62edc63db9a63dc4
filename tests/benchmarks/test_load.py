"""The generator as a process: a job in, an answer out, and a failure is an answer too."""

from __future__ import annotations

from benchmarks.load import perform
from benchmarks.load_job import Drive, Watch
from benchmarks.server_process import free_port


def test_nobody_there_is_a_failure_and_not_a_crash() -> None:
    for job in (
        Drive([b"x"], 1, 0.1, port=free_port()),
        Watch([b"x"], b"y", 1, 1, port=free_port()),
    ):
        assert perform(job).failure
