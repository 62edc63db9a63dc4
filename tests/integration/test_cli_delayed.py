"""penstock delayed, as a user would type it: on a directory, and at a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.cli import target
from penstock.cli.exit_codes import ExitCode
from penstock.engine.delayed_delivery import DelayedDelivery
from penstock.errors import LogFailed
from tests.integration.test_cli_main import Cli
from tests.integration.test_cli_url import Remote
from tests.support.serving import Server

HOUR_MS = 3_600_000


@pytest.fixture(params=["directory", "url"])
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cli | Remote]:
    if request.param == "directory":
        yield Cli(tmp_path / "data")
        return
    server = Server(tmp_path / "server").start()
    try:
        yield Remote(server, tmp_path)
    finally:
        server.close()


def delay(cli: Cli | Remote, *datas: Any) -> int:
    told = cli.ok("append", "t", *datas, "--delay-ms", HOUR_MS, "--json").json
    (delayed_id,) = told["delayed_ids"]
    return int(delayed_id)


def test_a_directory_opens_also_when_what_is_due_cannot_be_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with penstock.open(tmp_path) as log:
        log.append("t", [1])

    def fail(delivery: DelayedDelivery) -> None:
        raise LogFailed("/data", reason="the disk is full")

    monkeypatch.setattr(DelayedDelivery, "deliver_due", fail)

    with target.open_existing(tmp_path) as log:
        assert [record.data for record in log.read("t").records] == [1]

    said = capsys.readouterr().err
    assert "delayed records could not be delivered: " in said
    assert "the disk is full" in said


def test_what_is_delayed_is_listed_and_cancelled(cli: Cli | Remote) -> None:
    first, second, third = delay(cli, 1, 22), delay(cli, 3), delay(cli, 4)

    rows = cli.ok("delayed", "list", "t", "--json").json_lines
    shown = cli.ok("delayed", "list", "t", "--after", first, "--limit", 1).out
    told = cli.ok("delayed", "cancel", "t", first, second, "--json").json

    assert [(row["id"], row["topic"], row["count"], row["size"]) for row in rows] == [
        (first, "t", 2, 3),
        (second, "t", 1, 1),
        (third, "t", 1, 1),
    ]
    assert rows[0]["deliver_at"] <= rows[2]["deliver_at"]
    heads, line = shown.splitlines()
    assert heads.split() == ["id", "deliver", "at", "records", "size"]
    assert (line.split()[0], *line.split()[2:4]) == (str(second), "1", "1")
    assert told == {"topic": "t", "cancelled": [first, second], "failed": {}}
    assert cli.ok("delayed", "cancel", "t", third).out == "cancelled 1 delayed append of t\n"
    empty = cli.ok("delayed", "list", "t")
    assert (empty.out, empty.err) == ("", "penstock: nothing is delayed for t\n")


def test_what_cannot_be_cancelled_is_said_and_the_rest_is_cancelled(cli: Cli | Remote) -> None:
    first, second = delay(cli, 1), delay(cli, 2)
    cli.ok("delayed", "cancel", "t", first)

    told = cli.run("delayed", "cancel", "t", first, 99, second, "--json")
    again = cli.run("delayed", "cancel", "t", second)
    nowhere = cli.run("delayed", "list", "none", "--json")

    assert (told.code, again.code) == (ExitCode.TOPIC_NOT_FOUND, ExitCode.TOPIC_NOT_FOUND)
    assert told.json["cancelled"] == [second]
    assert list(told.json["failed"]) == [str(first), "99"]
    assert "no delayed batch with the id 99" in told.json["failed"]["99"]
    assert again.out == "cancelled 0 delayed appends of t\n"
    assert f"not cancelled: the batch {second} of topic 't' is not delayed" in again.err
    assert nowhere.code == ExitCode.TOPIC_NOT_FOUND
