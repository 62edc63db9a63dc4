"""PostgreSQL as a queue: each job is handed out once, in order, and what is missing is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import postgres as module
from benchmarks.peers import Peer
from benchmarks.postgres import NO_DRIVER, Jobs, postgres
from benchmarks.server_process import Missing
from penstock.cli.figure import PAYLOAD
from tests.support.postgres import needed, passable

ABSENT = Peer("no-such-program-at-all", "some-package", "-v")


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    """One server for all; each test leaves its queue empty."""
    needed()
    with passable() as folder, postgres(str(folder)) as found:
        assert isinstance(found, Jobs), found.reason
        yield found


def test_a_claim_takes_the_oldest_jobs_and_an_ack_removes_them(jobs: Jobs) -> None:
    jobs.put(5)

    first, second = jobs.claim(3), jobs.claim(3)
    ids = [job.id for job in first + second]
    gone = jobs.ack(first + second)

    assert [len(first), len(second), gone] == [3, 2, 5]
    assert sorted(ids[:3]) + sorted(ids[3:]) == sorted(ids)
    assert all(job.data == json.loads(PAYLOAD) for job in first + second)
    assert {job.deliveries for job in first + second} == {1}
    assert jobs.ack(first + second) == 0


def test_an_ack_holds_under_its_lease_alone(jobs: Jobs) -> None:
    jobs.put(2)
    held = jobs.claim(2)

    late = jobs.ack([job._replace(lease=job.lease - 1) for job in held])

    assert len({job.lease for job in held}) == 2
    assert [late, jobs.ack(held)] == [0, 2]


def test_cycles_go_on_until_nothing_is_left(jobs: Jobs) -> None:
    jobs.put(250)

    assert [jobs.cycle(100) for _ in range(4)] == [100, 100, 50, 0]


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes"])
def test_a_commit_waits_for_its_sync(name: str, jobs: Jobs) -> None:
    assert jobs.setting(name) == "on"


def test_the_server_is_reached_by_its_socket_alone(jobs: Jobs) -> None:
    assert jobs.setting("listen_addresses") == ""


def test_without_the_server_it_is_missing_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POSTGRES", ABSENT)

    with postgres(str(tmp_path)) as found:
        assert found == ABSENT.missing


def test_without_the_driver_it_is_missing_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POSTGRES", Peer(sys.executable, "some-package", "-V"))
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with postgres(str(tmp_path)) as found:
        assert found == NO_DRIVER


def test_a_cluster_that_cannot_be_made_is_missing_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed()
    with passable() as folder:
        for name in ("postgres", "initdb"):
            (folder / name).write_text("#!/bin/sh\necho the disk is on fire >&2\nexit 1\n")
            (folder / name).chmod(0o755)
        monkeypatch.setattr(module, "POSTGRES", Peer(str(folder / "postgres"), "", ""))

        with postgres(str(folder)) as found:
            assert found == Missing("postgres did not start: the disk is on fire")
