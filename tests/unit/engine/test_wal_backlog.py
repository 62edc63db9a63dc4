"""Writers that are too far ahead of the checkpoints."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.engine.open_log import open_log
from penstock.engine.wal_backlog import WalBacklog
from penstock.errors import LogFailed, Overloaded
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import everything


def test_writers_too_far_ahead_make_their_own_checkpoint_without_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "UNABSORBED_BYTES_MAX", 2000)
    log = open_memory_log(checkpoint_wal_bytes=4096)
    log.append("t", ["x" * 5000])
    log.core.parts.wal_backlog.weigh()
    behind = log.core.parts.wal_backlog.is_too_long

    log.append("t", ["y"])

    assert behind
    assert not log.core.parts.wal_backlog.is_too_long
    assert len(everything(log)) == 2


def test_a_submission_is_refused_while_checkpoints_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNABSORBED_BYTES_MAX", 2000)
    log = open_memory_log()
    log.append("t", ["x" * 5000])
    log.core.parts.wal_backlog.weigh()

    with pytest.raises(Overloaded, match="keep up") as caught:
        log.submit("t", ["y"], print)

    assert caught.value.retry_after_ms > 0


def test_a_writer_waits_for_the_thread_to_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNABSORBED_BYTES_MAX", 2000)
    settings = Settings(wal_shards=1, checkpoint_wal_bytes=4096, upkeep_interval_ms=60_000)

    with open_log(ROOT, settings=settings, fs=MemoryFilesystem(), clock=SystemClock()) as log:
        log.append("t", ["x" * 5000])
        log.core.parts.wal_backlog.weigh()

        log.append("t", ["y"])

        assert not log.core.parts.wal_backlog.is_too_long
        assert len(everything(log)) == 2


def backlog_of(clock: FakeClock, failed: LogFailed | None = None) -> WalBacklog:
    """One that is too long, and whose checkpoints are made by a thread that never comes to it."""
    backlog = WalBacklog(
        clock,
        written_bytes=lambda: limits.UNABSORBED_BYTES_MAX + 1,
        failure=lambda: failed,
        timeout_s=0.0,
    )
    backlog.request_checkpoint = lambda: True
    backlog.weigh()
    return backlog


def test_a_wait_for_a_checkpoint_has_an_end() -> None:
    with pytest.raises(Overloaded, match="with the writers"):
        backlog_of(FakeClock()).hold(may_wait=True)


def test_the_failure_of_the_log_ends_the_wait() -> None:
    failed = LogFailed("/log", reason="the disk is gone")

    with pytest.raises(LogFailed, match="the disk is gone"):
        backlog_of(FakeClock(), failed).hold(may_wait=True)


def test_it_is_what_was_written_less_what_was_absorbed() -> None:
    backlog = backlog_of(FakeClock())

    backlog.absorbed(limits.UNABSORBED_BYTES_MAX - 1)

    assert backlog.unabsorbed_bytes() == 2
    assert not backlog.is_too_long
