"""Our server as the benchmarks start and call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import server_own
from benchmarks.server_own import calls, create, own_server
from benchmarks.server_process import DidNotStart, Missing, Running


def test_it_starts_takes_a_topic_and_refuses_nonsense(tmp_path: Path) -> None:
    with own_server(str(tmp_path)) as server:
        assert isinstance(server, Running)
        create(server, "bench", durability="fsync")

        with calls(server.port) as call:
            assert call.status("GET", "/v0/topics/bench") == 200
            with pytest.raises(DidNotStart, match="/v0/topics/bench: 4"):
                call.raw("POST", "/v0/topics/bench", b"not JSON")


def test_one_that_does_not_start_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_own, "COMMAND", ("false",))

    with own_server(str(tmp_path)) as server:
        assert isinstance(server, Missing)
