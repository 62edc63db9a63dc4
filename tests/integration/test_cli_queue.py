"""penstock queue, as a user would type it: claimed, done, given back, put aside, moved back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_main import Cli

HOUR_MS = 3_600_000  # commands take their time on a busy machine


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path / "data")
    rules = (
        "--leases-durable",
        "--lease-ms",
        HOUR_MS,
        "--max-deliveries",
        1,
        "--dead-letter",
        "jobs.dead",
    )
    made.ok("create", "jobs", "--type", "queue", *rules)
    made.ok("append", "jobs", 1, 2)
    return made


def told(cli: Cli, *words: Any) -> Any:
    return json.loads(cli.ok(*words, "--json").out)


def test_a_job_goes_its_way(cli: Cli) -> None:
    jobs = told(cli, "queue", "claim", "jobs", "--node", "ann", "--max", 2)["jobs"]
    assert [job["data"] for job in jobs] == [1, 2]
    named = [("--node", "ann", "--lease", job["lease_id"]) for job in jobs]

    assert told(cli, "queue", "ack", "jobs", 1, "--node", "bob")["done"] == 0
    assert (
        told(cli, "queue", "extend", "jobs", 1, *named[0], "--lease-ms", 2 * HOUR_MS)["done"] == 1
    )
    assert told(cli, "queue", "ack", "jobs", 1, *named[0])["done"] == 1
    assert told(cli, "queue", "nack", "jobs", 2, *named[1])["done"] == 1
    assert told(cli, "queue", "claim", "jobs", "--node", "ann")["jobs"] == []
    assert told(cli, "queue", "counts", "jobs")["dead_lettered"] == 1

    assert told(cli, "queue", "redrive", "jobs.dead", "--dry-run")["moved"] == 1
    assert told(cli, "queue", "redrive", "jobs.dead", "--rate", 1000)["moved"] == 1
    again = told(cli, "queue", "claim", "jobs", "--node", "ann")["jobs"]
    assert [job["data"] for job in again] == [2]
