"""The process: where it listens, what it locks and refuses to start with, what it keeps."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from tests.server.conftest import Start
from tests.server.support import CONFIG, api_of, at_once
from tests.support.serving import DEADLINE_S, Failed, Server


def test_the_port_file_names_the_address(start: Start) -> None:
    server = start()

    text = server.port_file.read_text()

    assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*\n?", text)
    assert api_of(server).get("/v0/health").status == 200
    assert [path.name for path in server.home.iterdir() if path.name.startswith("port")] == ["port"]


def test_the_host_may_carry_the_port(start: Start) -> None:
    server = start(PENSTOCK_HOST="127.0.0.1:0", PENSTOCK_PORT="1")

    assert server.address[1] > 1


def test_the_command_line_goes_before_the_environment(start: Start, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"

    server = start(str(place), "--host", "127.0.0.1", "--port", "0", PENSTOCK_PORT="1")
    api_of(server).write("t", 1)
    server.stop()

    assert place.is_dir()
    assert not server.data_dir.exists()


def test_the_data_lies_beside_the_caller_unless_told(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    del server.env["PENSTOCK_DATA_DIR"]
    try:
        server.start()
        assert (server.home / "penstock-data").is_dir()
    finally:
        server.close()


def test_a_directory_has_one_server(start: Start) -> None:
    first = start()
    api_of(first).write("t", 1)
    second = Server(first.home.parent / "second", {"PENSTOCK_DATA_DIR": str(first.data_dir)})
    try:
        with pytest.raises(Failed) as caught:
            second.start()
    finally:
        second.close()

    assert "ended with 0 " not in str(caught.value)
    assert str(first.pid) in str(caught.value)
    assert not second.port_file.exists()
    assert api_of(first).write("t", 2)["last_seq"] == 2


def test_a_killed_server_leaves_no_lock(start: Start) -> None:
    server = start()
    server.kill()

    server.start()

    assert api_of(server).get("/v0/ready").status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0.0.0.0:0"])
def test_it_does_not_listen_to_the_world_without_keys(start: Start, host: str) -> None:
    with pytest.raises(Failed) as caught:
        start(PENSTOCK_HOST=host)

    said = str(caught.value)
    assert "ended with 0 " not in said
    assert "Traceback" not in said
    assert "PENSTOCK_API_KEYS" in said or "key" in said.lower()


@pytest.mark.parametrize("word", ["0", "no", ""])
def test_only_a_clear_word_opens_it_to_the_world(start: Start, word: str) -> None:
    with pytest.raises(Failed):
        start(PENSTOCK_HOST="0.0.0.0", PENSTOCK_ALLOW_INSECURE_NO_AUTH=word)


@pytest.mark.parametrize(
    "why",
    [
        {"PENSTOCK_ALLOW_INSECURE_NO_AUTH": "1"},
        {"PENSTOCK_ALLOW_INSECURE_NO_AUTH": "true"},
        {"PENSTOCK_API_KEYS": "some-key"},
    ],
)
def test_it_listens_to_the_world_with_keys_or_when_told(start: Start, why: dict[str, str]) -> None:
    server = start(PENSTOCK_HOST="0.0.0.0", **why)

    assert server.address[0] == "0.0.0.0"
    assert api_of(server, "some-key").get("/v0/topics").status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"PENSTOCK_PORT": "no-number"},
        {"PENSTOCK_PORT": "70000"},
        {"PENSTOCK_MAX_BODY_BYTES": "much"},
        {"PENSTOCK_MAX_TOPICS": "-1"},
    ],
)
def test_a_setting_that_makes_no_sense_is_said_and_ends_it(
    start: Start, wrong: dict[str, str]
) -> None:
    with pytest.raises(Failed) as caught:
        start(**wrong)

    assert "ended with 0 " not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_the_verb_has_help() -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--help"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)

    assert done.returncode == 0
    assert "--port" in done.stdout


# What a restart keeps.


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_keeps_topics_records_and_floors(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("kept", cap_records=3, durability="fsync", priority=7)
    api.write("kept", records=[{"data": n, "tag": f"t{n}", "node": "n"} for n in range(5)])
    api.write("deleted", 1, 2, 3)
    api.remove("deleted", before_seq=3)
    api.create("gone")
    api.drop("gone")
    before = api.state("kept", "?touch=false")
    read = api.diff("kept", include_tags=True)
    assert server.stop() == 0 if how == "stop" else server.kill() is None

    server.start()

    api = api_of(server)
    after = api.state("kept", "?touch=false")
    same = ("head_seq", "earliest_seq", "next_seq", "count", "bytes", "config", "epoch")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after["config"] == CONFIG | {
        "cap_records": 3,
        "durability": "fsync",
        "durable": True,
        "priority": 7,
    }
    again = api.diff("kept", include_tags=True)
    assert again["records"] == read["records"]
    assert again["tombstone"] == read["tombstone"]
    left = api.diff("deleted")
    assert [record["data"] for record in left["records"]] == [3]
    assert left["tombstone"] is None
    assert api.get("/v0/topics/gone").status == 404


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_race_of_creators_has_one_winner_and_leaves_one_topic(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)

    answers = at_once(12, lambda _: api.put("/v0/topics/one").json)
    wrote = at_once(12, lambda n: api.write("two", n))

    assert [a["created"] for a in answers].count(True) == 1
    assert [a["created"] for a in wrote].count(True) == 1
    assert sorted(a["last_seq"] for a in wrote) == list(range(1, 13))
    assert server.stop() == 0 if how == "stop" else server.kill() is None
    server.start()
    names = [item["topic"] for item in api_of(server).get("/v0/topics").json["topics"]]
    assert names == ["one", "two"]
    assert api_of(server).state("one")["epoch"] == answers[0]["epoch"]


def test_a_clean_stop_leaves_one_snapshot(start: Start) -> None:
    server = start()
    api_of(server).write("t", 1, 2, 3)

    server.stop()

    assert len(list((server.data_dir / "meta").glob("snapshot-*.bin"))) == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(start: Start, how: signal.Signals) -> None:
    server = start()
    api_of(server).write("t", 1)

    server.terminate(how)

    assert server.wait() == 0
    with penstock.open(server.data_dir) as log:
        assert log.topic("t").count == 1
