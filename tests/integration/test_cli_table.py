"""penstock table, as a user would type it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_main import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path / "data")
    made.ok("table", "create", "t", "--key", "id")
    made.ok("append", "t", '{"id":"a"}', '{"id":5}', '{"id":"b"}')
    return made


def lines(cli: Cli, *words: Any) -> list[Any]:
    return [json.loads(line) for line in cli.ok(*words).out.splitlines()]


def test_rows_are_printed(cli: Cli) -> None:
    assert lines(cli, "table", "get", "t", "a")[0]["value"] == {"id": "a"}
    assert lines(cli, "table", "get", "t", 5, "--key-type", "int")[0]["seq"] == 2
    assert [row["key"] for row in lines(cli, "table", "scan", "t")] == [5, "a", "b"]
    assert [row["key"] for row in lines(cli, "table", "scan", "t", "--limit", 2)] == [5, "a"]
    assert cli.run("table", "get", "t", "zz").code == 7


def test_changes_are_printed(cli: Cli) -> None:
    found = lines(cli, "table", "watch", "t", "--after", "1.1", "--timeout", "0.1")

    assert [(one["type"], one["key"]) for one in found] == [("change", 5), ("change", "b")]


def test_tables_are_listed_rebuilt_and_dropped(cli: Cli) -> None:
    assert lines(cli, "table", "list", "--json")[0]["key"] == "id"
    assert "t     t      id" in cli.ok("table", "list").out
    assert "rebuilding" in cli.ok("table", "rebuild", "t").out
    assert cli.ok("table", "drop", "t").out == "t: dropped\n"
    assert cli.run("table", "get", "t", "a").code == 7
