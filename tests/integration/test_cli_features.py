"""penstock features, as a user would type it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.integration.test_cli_main import Cli, Outcome

RIDES = """
from __future__ import annotations

from penstock import features
from penstock.features import col


@features.event(topic="rides", dedupe="id", dedupe_window="1h")
class Ride:
    id: int
    rider: str
    city: str
    fare: float


@features.event
def LongRide(rides: Ride):
    return rides.filter(col("fare") > 10)


@features.table(key="rider")
def Riders(rides: LongRide):
    return rides.agg(
        rides_1h=features.count(window="1h"),
        spend=features.sum("fare"),
        cities=features.n_unique("city", where=col("fare") < 90),
    )


@features.table(key=["city", "seats"])
def PerCity(rides: Ride):
    return rides.with_columns(seats=features.lit(4)).agg(n=features.count())


@features.table
def Fleet(rides: Ride):
    return rides.agg(rides=features.count())
"""


def ride(number: int, rider: str = "ana", fare: float = 12.5) -> str:
    return json.dumps({"id": number, "rider": rider, "city": "Oslo", "fare": fare})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rides.py"
    path.write_text(RIDES)
    return path


@pytest.fixture
def cli(tmp_path: Path, source: Path) -> Cli:
    made = Cli(tmp_path / "data")
    made.ok("features", "apply", source)
    return made


def refused(cli: Cli, *words: Any, code: int = 2, stdin: str = "") -> Outcome:
    found = cli.run("features", *words, stdin=stdin)
    assert (found.code, found.out) == (code, ""), found
    return found


def test_a_file_is_applied_after_its_difference_was_seen(tmp_path: Path, source: Path) -> None:
    cli = Cli(tmp_path / "data")

    seen = cli.ok("features", "apply", source, "--dry-run").out
    done = cli.ok("features", "apply", source, "--wait", 60).out
    again = cli.ok("features", "apply", source, "--json").json

    assert "+ derived LongRide  new\n" in seen
    assert seen.endswith("dry run, nothing was changed: version 0\n")
    assert done.endswith("registered as version 1: 3 tables ready\n")
    assert (again["version"], again["changed"], again["changes"]) == (1, False, [])


def test_a_change_that_loses_values_needs_force(cli: Cli, source: Path) -> None:
    fewer = source.with_name("fewer.py")
    fewer.write_text(RIDES.replace('        spend=features.sum("fare"),\n', ""))

    error = refused(cli, "apply", fewer).err

    assert "- feature Riders.spend  its values are removed (needs --force)" in error
    assert error.splitlines()[-1].endswith("--force permits it")
    assert "(needs --force)" in cli.ok("features", "apply", fewer, "--dry-run").out
    assert "registered as version 2" in cli.ok("features", "apply", fewer, "--force").out


def test_what_is_printed_is_applied_again_and_the_rest_is_removed(cli: Cli) -> None:
    document = cli.ok("features", "definition")
    kept = document.json | {"tables": document.json["tables"][:1]}

    assert "nothing changed" in cli.ok("features", "apply", "-", stdin=document.out).out
    whole = ("apply", "-", "--whole", "--force")
    cli.ok("features", *whole, stdin=json.dumps(kept))

    assert [one["name"] for one in cli.ok("features", "list", "--json").json_lines] == ["Riders"]


def test_a_file_that_declares_nothing_good_is_refused(cli: Cli, source: Path) -> None:
    for name, text, message in (
        ("a.json", "[1]", "is no definition: expected a JSON object"),
        ("a.py", "import nothing", "line 1: ModuleNotFoundError: No module named 'nothing'"),
        ("a.py", "a = 1", "declares no features"),
        ("a.py", RIDES.replace('sum("fare"', 'sum("fair"'), "tables.Riders.features.spend.field"),
        ("a.py", RIDES.replace('"1h"),', '"1x"),'), "a.py, line 24: invalid window '1x'"),
    ):
        wrong = source.with_name(name)
        wrong.write_text(text)
        assert message in refused(cli, "apply", wrong).err
    assert "cannot read" in refused(cli, "apply", source.with_name("gone.json")).err
    assert "cannot import" in refused(cli, "apply", "nothing:here").err


def test_events_are_pushed_and_rows_are_printed(cli: Cli) -> None:
    one = cli.ok("features", "push", "Ride", ride(1), ride(2, fare=80))
    more = cli.ok(
        "features", "push", "Ride", "--json", "--sync", stdin=f"{ride(2)}\n\n{ride(3, 'bo', 5)}\n"
    )

    assert one.out == "pushed 2 events to Ride, seq 1..2 of rides\n"
    assert more.json == {"event": "Ride", "count": 1, "deduped": 1, "first_seq": 3, "last_seq": 3}
    row = cli.ok("features", "get", "Riders", "ana")
    assert row.out == "  rides_1h  2\n  spend     92.5\n  cities    1\n"
    assert cli.ok("features", "get", "Riders", "ana", "-f", "spend", "--json").json == {
        "spend": 92.5
    }
    assert cli.ok("features", "get", "Fleet", "--json").json == {"rides": 3}
    assert cli.ok("features", "get", "PerCity", "Oslo", 4, "--json").json == {"n": 3}
    assert cli.ok("features", "scan", "PerCity", "-f", "n", "--limit", 5).json_lines == [
        {"key": ["Oslo", 4], "row": {"n": 3}}
    ]
    assert cli.ok("features", "get", "Fleet", "--as-of-seq", 2, "--json").json == {"rides": 2}
    nobody = cli.run("features", "get", "Riders", "bo", "--json")
    assert (nobody.code, nobody.json) == (7, {})
    assert "no events of this key" in refused(cli, "get", "Riders", "bo", code=7).err


def test_an_event_that_does_not_fit_is_named_and_nothing_of_its_batch_is_pushed(cli: Cli) -> None:
    many = "\n".join(ride(number) for number in range(1100))

    single = refused(cli, "push", "Ride", ride(1), ride(2).replace("12.5", '"x"'), "--json").err
    late = refused(cli, "push", "Ride", stdin=f"{many}\n" + '{"id": "x"}\n').err

    assert json.loads(single)["error"]["detail"] == {
        "event": "Ride",
        "field": "fare",
        "value": "x",
        "index": 1,
    }
    assert "(number 1,101 of the input): field 'id' is \"x\"" in late
    assert late.endswith("1,000 events before this batch were pushed\n")
    assert cli.ok("features", "get", "Fleet", "--json").json == {"rides": 1000}
    assert "did you mean 'Ride'?" in refused(cli, "push", "Rides", "{}").err


def test_keys_and_names_that_do_not_fit_are_told(cli: Cli) -> None:
    assert "did you mean 'Riders'?" in refused(cli, "get", "Riderz", "a", code=7).err
    assert "2 key columns (city seats): got 1 argument" in refused(cli, "get", "PerCity", "a").err
    wrong = refused(cli, "get", "PerCity", "Oslo", "four", "--json").err
    assert json.loads(wrong)["error"]["detail"] == {
        "table": "PerCity",
        "field": "seats",
        "value": "four",
    }
    assert "has no feature 'spent'" in refused(cli, "get", "Riders", "a", "-f", "spent").err


def test_a_table_is_explained(cli: Cli) -> None:
    cli.ok("features", "push", "Ride", ride(1), ride(2, fare=3))

    text = cli.ok("features", "explain", "Riders").out
    found = cli.ok("features", "explain", "Riders", "--json").json

    assert text.startswith("Riders: 3 features by rider, ready\n")
    for line in (
        "once per  id within 1h",
        "gaps      lost records are counted (accept)",
        "LongRide  filter (fare > 10)",
        "cities: only events with (fare < 90)",
        "records  1 counted, 1 did not pass a step",
        "committed  2  visible to readers",
        "applied    2  counted in the rows",
    ):
        assert line in text
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"\n  ids      [0-2] in .* of at most 1(\.0)? GiB\n", text)
    assert found["features"]["rides_1h"]["window"] == "1h"
    assert found["table"]["watermarks"]["applied"] == 2
    assert "Riders   Ride   rider" in cli.ok("features", "list").out


def test_long_names_are_broken_into_lines(cli: Cli, source: Path) -> None:
    more = "".join(f"        another_feature_{n}=features.count(),\n" for n in range(5))
    source.write_text(
        RIDES.replace(
            '        spend=features.sum("fare"),\n',
            '        spend=features.sum("fare"),\n'
            '        usual_fare=features.quantile("fare", q=0.125, '
            'window=features.hopping("24h", every="30m")),\n' + more,
        )
    )
    cli.ok("features", "apply", source)
    cli.ok("features", "push", "Ride", ride(1))

    text = cli.ok("features", "explain", "Riders").out
    lines = text.splitlines()

    assert not [one for one in lines if len(one) > 80]
    (at,) = [n for n, line in enumerate(lines) if "  quantile(fare, " in line]
    assert "q=0.125)" in f"{lines[at]}{lines[at + 1]}"
    parts = lines[lines.index("Parts") + 1 :]
    assert [line.partition(".")[0] for line in parts[1:3]] == ["Riders", "Riders"]
    assert all(line.strip().startswith("another_feature_") for line in parts[3:])


def test_changes_of_a_row_are_printed(cli: Cli) -> None:
    cli.ok("features", "push", "Ride", ride(1))

    watched = cli.ok("features", "watch", "Fleet", "--timeout", "0.1")

    assert watched.json_lines == [{"rides": 1}]


def test_the_commands_work_on_a_server(cli: Cli, tmp_path: Path, source: Path) -> None:
    from tests.support.serving import Server

    server = Server(tmp_path / "server").start()
    try:
        url = ("--url", f"http://127.0.0.1:{server.address[1]}")
        assert "3 tables ready" in cli.ok("features", "apply", source, "--wait", 60, *url).out
        cli.ok("features", "push", "Ride", ride(1), *url)
        assert cli.ok("features", "get", "Fleet", "--json", *url).json == {"rides": 1}
        assert "Riders: 3 features" in cli.ok("features", "explain", "Riders", *url).out
        assert len(cli.ok("features", "list", "--json", *url).json_lines) == 3
        watch = cli.ok("features", "watch", "Fleet", "--timeout", "0.1", *url)
        assert watch.json_lines == [{"rides": 1}]
        refused(cli, "push", "Ride", "{}", *url)
        with penstock.connect(url[1]) as client:
            assert client.features.definition() == cli.ok("features", "definition", *url).json
    finally:
        server.close()


def test_a_bad_record_is_explained_with_the_bound_of_its_time(tmp_path: Path) -> None:
    source = tmp_path / "timed.py"
    source.write_text(
        "from penstock import features\n"
        "@features.event(time='at', lateness='1m', ahead='5m', on_gap='fail')\n"
        "class Timed:\n"
        "    at: int\n"
        "@features.table\n"
        "def All(events: Timed):\n"
        "    return events.agg(n=features.count())\n"
    )
    from tests.support.serving import Server

    server = Server(tmp_path / "server").start()
    try:
        url = ("--url", f"http://127.0.0.1:{server.address[1]}")
        cli, event = Cli(tmp_path / "data"), json.dumps({"at": 1 << 50})
        cli.ok("features", "apply", source, "--wait", 60, *url)
        wrong = refused(cli, "push", "Timed", event, *url)
        cli.ok("append", "Timed", event, *url)
        assert cli.run("features", "get", "All", *url).code == 7  # no row
        text = cli.ok("features", "explain", "All", *url).out
    finally:
        server.close()

    assert f"field 'at' is {1 << 50}, expected a time in ms" in wrong.err
    assert f"bad      record 1: field 'at' is {1 << 50}, expected a time in" in text
    assert "time    at, at most 1m late, at most 5m ahead" in text
    assert "gaps    after a loss the table stops (fail)" in text
    assert "records  0 counted, 1 did not fit the schema, or were too far ahead" in text
