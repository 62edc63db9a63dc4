"""Requests that come while the log is being recovered, and while the server stops."""

from __future__ import annotations

import pytest

from penstock.server.errors import ApiError
from penstock.server.readiness import Readiness
from tests.unit.server.support import Site, on_loop


@on_loop
async def test_while_the_log_recovers_only_the_early_routes_answer() -> None:
    site = Site(is_recovered=False, api_keys="boss")
    site.server.readiness.record_progress(1, 4)

    for path in ("/v0/topics", "/v0/nothing", "/v0/metrics"):
        answer = await site.call("GET", path)
        assert (answer.status, answer.code) == (503, "not_ready")
        assert answer.detail == {"replay_progress": 0.25}
        assert answer.headers[b"retry-after"] == b"1"
    assert (await site.call("GET", "/v0/health")).status == 200
    assert (await site.call("GET", "/v0/openapi.json")).status == 200
    assert (await site.call("GET", "/v0/ready")).status == 503


@on_loop
async def test_a_server_that_stops_takes_no_more() -> None:
    site = Site()
    site.server.readiness.begin_stop()

    answer = await site.call("POST", "/v0/topics/a", {"records": [{"data": 1}]})

    assert (answer.status, answer.code) == (503, "shutting_down")
    assert answer.headers[b"retry-after"] == b"1"


@pytest.mark.parametrize(("done", "total", "progress"), [(0, 0, 0.0), (1, 3, 0.3333), (5, 4, 1.0)])
def test_progress_is_a_share_that_never_passes_one(done: int, total: int, progress: float) -> None:
    readiness = Readiness()

    readiness.record_progress(done, total)

    assert readiness.progress() == progress
    readiness.finish_recovery()
    assert readiness.progress() is None


def test_a_server_that_stops_during_recovery_does_not_serve_after_it() -> None:
    readiness = Readiness()

    readiness.begin_stop()
    readiness.finish_recovery()

    assert not readiness.is_serving
    for is_early in (True, False):
        with pytest.raises(ApiError, match="shutting down"):
            readiness.check(is_early=is_early)
