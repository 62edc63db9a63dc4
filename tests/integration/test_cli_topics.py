"""topics, create, drop."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.types import QueueRules, TopicConfig
from tests.integration.test_cli_main import Cli

EVERY_SETTING = {
    "type": "queue",
    "ttl_ms": 5000,
    "cap_records": 10,
    "cap_bytes": 20_000,
    "discard": "reject",
    "durable": True,
    "durability": "fsync",
    "priority": 3,
    "auto_priority": False,
    "auto_create": False,
    "idempotency_window_ms": 1000,
    "dedupe_node": False,
    "lease_ms": 2000,
    "claim_jitter_ms": 10,
    "max_deliveries": 4,
    "dead_letter": "graveyard",
    "leases_durable": True,
    "queue": {
        "group_by": "tag",
        "retry_base_ms": 250,
        "retry_cap_ms": 9000,
        "retry_jitter": 0.25,
    },
}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


def test_topics_is_a_table(cli: Cli) -> None:
    cli.ok("append", "orders.eu", *range(1000), "--durability", "fsync")
    cli.ok("append", "orders.us", 1)
    cli.ok("append", "clicks", 1)

    table = [line.split() for line in cli.ok("topics", "orders.").out.splitlines()]

    assert table[0] == ["name", "class", "head", "earliest", "count", "bytes", "segments"]
    assert table[1] == ["orders.eu", "fsync", "1,000", "1", "1,000", "2,890", "0"]
    assert table[2][:2] == ["orders.us", "disk"]
    assert len(table) == 3


def test_topics_as_json_tells_everything(cli: Cli) -> None:
    cli.ok("append", "t", 1, 2)

    topic = cli.ok("topics", "--json").json

    assert topic["name"] == "t"
    assert topic["head_seq"] == 2
    assert topic["config"]["durability"] == "disk"


def test_no_topics_is_no_error(cli: Cli) -> None:
    cli.ok("append", "t", 1)

    outcome = cli.ok("topics", "x")

    assert (outcome.out, outcome.err) == ("", "penstock: no topics that start with 'x'\n")


def test_create_takes_every_setting_of_a_topic(cli: Cli) -> None:
    assert set(EVERY_SETTING) == set(TopicConfig.__struct_fields__)
    assert set(EVERY_SETTING["queue"]) == {*QueueRules.__struct_fields__}
    words = []
    settings = {name: value for name, value in EVERY_SETTING.items() if name != "queue"}
    for name, value in (settings | EVERY_SETTING["queue"]).items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]

    answer = cli.ok("create", "jobs", *words, "--json").json

    assert answer["existed"] is False
    assert answer["config"] == EVERY_SETTING
    assert cli.ok("topics", "--json").json["config"] == EVERY_SETTING


def test_create_tells_what_differs_from_the_defaults(cli: Cli) -> None:
    assert cli.ok("create", "t").out == "created t (disk)\n"
    assert (
        cli.ok("create", "t", "--cap-records", 5000, "--no-dedupe-node").out
        == "configured t (disk, cap_records 5,000, dedupe_node off)\n"
    )


def test_drop_removes_the_topic_when_it_is_told_twice(cli: Cli) -> None:
    cli.ok("append", "t", 1, 2)

    refused = cli.run("drop", "t")
    told = cli.ok("drop", "t", "--yes").out

    assert refused.err == (
        "penstock: pass --yes to drop topic t with 2 records: stdin is not a terminal\n"
    )
    assert told == "dropped topic t with 2 records\n"
    assert cli.ok("topics").out == ""
    assert cli.run("drop", "t", "--yes").code == 7


def test_drop_answers_in_json(cli: Cli) -> None:
    cli.ok("append", "t", 1)

    assert cli.ok("drop", "t", "--yes", "--json").json == {
        "topic": "t",
        "dropped": True,
        "count": 1,
    }
