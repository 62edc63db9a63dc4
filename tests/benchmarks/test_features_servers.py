"""Our server with features, as the benchmark starts, fills and kills it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import features_events as made
from benchmarks import features_servers
from benchmarks.features_servers import first_row, kill, ours, own_pour, push_all, theirs
from benchmarks.load_process import run_job
from benchmarks.server_process import Missing, Running


def test_what_was_pushed_is_in_a_row_and_still_is_after_a_kill(tmp_path: Path) -> None:
    batches = made.batches(2, 10)
    with ours(str(tmp_path), made.PLAIN) as server:
        assert isinstance(server, Running)
        push_all(server, batches)
        assert b'"orders":2,' in first_row(server)

        pour = own_pour(made.marked_by(batches, "other"), 0.05, 2)
        job = msgspec.structs.replace(
            pour, check=made.get_request("other"), port=server.port, pid=server.pid
        )
        load = run_job(job)
        kill(server)
    assert load.failure == ""
    assert load.answers > 0

    with ours(str(tmp_path), None) as server:
        assert isinstance(server, Running)
        assert b'"orders":2,' in first_row(server)


def test_a_peer_that_is_not_installed_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features_servers, "peer_path", lambda: None)

    with theirs(str(tmp_path), made.PLAIN) as server:
        assert isinstance(server, Missing)
    assert features_servers.peer_version() == ""
