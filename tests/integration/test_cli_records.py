"""append, read, tail, delete, as a user would type them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.test_cli_main import Cli
from tests.support.serving import eventually

LINE = re.compile(r" *(\d+)  (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)  (\S+) +(\S+) +(.*)")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


def lines(count: int) -> str:
    return "".join(f'{{"n":{n}}}\n' for n in range(1, count + 1))


def test_what_is_appended_is_read(cli: Cli) -> None:
    told = cli.ok("append", "orders", '{"id": 1}', '"two"', "3", "--tag", "new", "--node", "web")

    shown = cli.ok("read", "orders").out.splitlines()

    assert told.out == "appended 3 records to orders, seq 1..3 (disk, new topic)\n"
    matches = [LINE.fullmatch(line) for line in shown]
    assert [m and (m[1], m[3], m[4], m[5]) for m in matches] == [
        ("1", "new", "web", '{"id": 1}'),
        ("2", "new", "web", '"two"'),
        ("3", "new", "web", "3"),
    ]


def test_json_has_the_fields_of_a_record_and_the_payload_as_it_was(cli: Cli) -> None:
    cli.ok("append", "t", '{"big": 12345678901234567890123,\n "f": 1.0}', "--meta", '{"k": [1]}')

    shown = cli.ok("read", "t", "--json").out

    assert shown.count("\n") == 1
    assert '"data":{"big":12345678901234567890123,"f":1.0}}' in shown
    record = cli.ok("read", "t", "--json").json
    assert list(record) == ["seq", "ts", "tag", "node", "meta", "data"]
    assert (record["seq"], record["tag"], record["node"]) == (1, None, None)
    assert record["meta"] == {"k": [1]}


def test_append_answers_in_json(cli: Cli) -> None:
    answer = cli.ok("append", "t", "1", "2", "--durability", "fsync", "--json").json

    assert answer["first_seq"] == 1
    assert answer["last_seq"] == answer["count"] == 2
    assert answer["created"] is False
    assert answer["durability"] == "fsync"


def test_lines_come_from_a_pipe_in_batches(cli: Cli) -> None:
    answer = cli.ok("append", "t", "--json", stdin=lines(2_500) + "\n\n").json

    assert (answer["count"], answer["batches"]) == (2_500, 3)
    assert cli.ok("read", "t", "--all", "--json").json_lines[-1]["data"] == {"n": 2_500}


def test_lines_come_from_a_file(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(lines(3).removesuffix("\n"))

    cli.ok("append", "t", "--file", source)
    cli.ok("append", "t", "--file", "-", stdin="4")

    assert [r["data"] for r in cli.ok("read", "t", "--json").json_lines][-2:] == [{"n": 3}, 4]


def test_a_pipe_that_pauses_does_not_hold_its_records_back(cli: Cli) -> None:
    command = cli.command("append", "t", "--json")
    with subprocess.Popen(command, env=cli.env, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'"early"\n')
        process.stdin.flush()

        eventually(lambda: "early" in cli.run("wal", "read", "--data").out, "the record in the log")

        process.stdin.close()


def test_an_empty_pipe_appends_nothing(cli: Cli) -> None:
    assert cli.ok("append", "t", "--json").json == {"topic": "t", "count": 0, "batches": 0}


def test_a_bad_line_is_named_with_what_came_before_it(cli: Cli) -> None:
    outcome = cli.run("append", "t", stdin=lines(1_500) + "{oops\n")

    assert outcome.code == 2
    assert "stdin line 1501 is not JSON" in outcome.err
    assert "1,000 records before this batch were appended" in outcome.err
    assert len(cli.ok("read", "t", "--all").out.splitlines()) == 1_000


def test_a_line_that_nests_too_deep_is_named(cli: Cli) -> None:
    deep = "[" * 5000 + "]" * 5000

    for outcome in (
        cli.run("append", "t", stdin=f"1\n{deep}\n"),
        cli.run("append", "t", deep),
    ):
        assert outcome.code == 2
        assert "nests 5000 levels deep, at most 128 are allowed" in outcome.err


def test_a_key_makes_a_second_run_harmless(cli: Cli) -> None:
    cli.ok("append", "t", "--key", "import-7", stdin=lines(1_200))

    again = cli.ok("append", "t", "--key", "import-7", "--json", stdin=lines(1_200)).json

    assert again["deduped"] == 1_200
    assert again["head_seq"] == 1_200


def test_a_read_begins_and_ends_where_it_is_told(cli: Cli) -> None:
    cli.ok("append", "t", stdin=lines(10))

    shown = cli.ok("read", "t", "--after", 3, "--limit", 2, "--json").json_lines

    assert [record["seq"] for record in shown] == [4, 5]


def test_a_read_leaves_out_a_node(cli: Cli) -> None:
    cli.ok("append", "t", 1, "--node", "me")
    cli.ok("append", "t", 2, "--node", "you")

    assert [r["data"] for r in cli.ok("read", "t", "--node", "me", "--json").json_lines] == [2]


def test_a_gap_is_a_line_of_its_own(cli: Cli) -> None:
    cli.ok("create", "t", "--cap-records", 3)
    cli.ok("append", "t", stdin=lines(10))

    text = cli.ok("read", "t").out.splitlines()
    first = cli.ok("read", "t", "--json").json_lines[0]

    assert text[0] == "-- gap 1..7 (cap) --"
    assert len(text) == 4
    assert first["gap"]["first"] == 1
    assert first["gap"]["last"] == 7
    assert first["gap"]["reason"] == "cap"


def test_reading_makes_no_topic(cli: Cli) -> None:
    cli.ok("append", "t", 1)

    assert cli.run("read", "other").code == cli.run("tail", "other").code == 7
    assert [topic["name"] for topic in cli.ok("topics", "--json").json_lines] == ["t"]


def test_text_from_a_record_cannot_drive_the_terminal(cli: Cli) -> None:
    cli.ok("append", "t", '"\x9b31m"', "--tag", "\x1b[31mred")

    shown = cli.ok("read", "t").out

    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r"\x1b[31mred" in shown


def test_a_terminal_gets_colour_and_a_pipe_does_not(cli: Cli) -> None:
    cli.ok("append", "t", 1)
    ours, theirs = os.openpty()

    with subprocess.Popen(cli.command("read", "t"), env=cli.env, stdout=theirs) as process:
        process.wait()
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)

    assert b"\x1b[1m1\x1b[0m" in shown
    assert "\x1b" not in cli.ok("read", "t").out


def test_tail_prints_the_newest(cli: Cli) -> None:
    cli.ok("append", "t", stdin=lines(30))

    assert len(cli.ok("tail", "t").out.splitlines()) == 10
    assert [r["seq"] for r in cli.ok("tail", "t", "--last", 2, "--json").json_lines] == [29, 30]
    assert [r["seq"] for r in cli.ok("tail", "t", "--after", 28, "--json").json_lines] == [29, 30]
    assert cli.ok("tail", "t", "--last", 0).out == ""


def test_tail_counts_records_and_not_seqs(cli: Cli) -> None:
    cli.ok("append", "t", stdin=lines(5))
    cli.ok("append", "t", "--tag", "gone", stdin=lines(20))
    cli.ok("append", "t", 26)
    cli.ok("delete", "t", "--tag", "gone")

    assert [r["seq"] for r in cli.ok("tail", "t", "--last", 3, "--json").json_lines] == [4, 5, 26]


def test_tail_follows_what_other_commands_append(cli: Cli) -> None:
    cli.ok("append", "t", 1)
    command = cli.command("tail", "t", "--follow", "--timeout", 600, "--json")
    with subprocess.Popen(command, env=cli.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert '"seq":1' in process.stdout.readline()

        cli.ok("append", "t", 2)
        second = process.stdout.readline()
        cli.ok("append", "t", 3)
        third = process.stdout.readline()

        process.terminate()
    assert '"seq":2' in second
    assert '"seq":3' in third


def test_following_ends_when_nothing_comes_and_when_the_topic_goes(cli: Cli) -> None:
    cli.ok("append", "t", 1)

    assert len(cli.ok("tail", "t", "-f", "--timeout", 0.3).out.splitlines()) == 1

    command = cli.command("tail", "t", "--follow")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=cli.env, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        cli.ok("drop", "t", "--yes")
        assert "the topic was dropped" in process.stderr.read()
    assert process.returncode == 0


def test_delete_by_tag_and_by_seq(cli: Cli) -> None:
    cli.ok("append", "t", "--tag", "day-1", stdin=lines(5))
    cli.ok("append", "t", "--tag", "day-2", stdin=lines(5))

    told = cli.ok("delete", "t", "--tag", "day-1*").out
    answer = cli.ok("delete", "t", "--before-seq", 8, "--json").json

    assert told.startswith("deleted 5 records of t, 5 records left")
    assert (answer["deleted"], answer["count"], answer["earliest_seq"]) == (2, 3, 8)
    assert [r["seq"] for r in cli.ok("read", "t", "--json").json_lines] == [8, 9, 10]
