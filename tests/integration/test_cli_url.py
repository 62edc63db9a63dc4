"""The verbs against a real server, as a user would type them: `--url` instead of a directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.exit_codes import ExitCode
from tests.integration.test_cli_main import Cli, Outcome
from tests.support.serving import DEADLINE_S, Server

KEYS = "all-of-it,reader:read,writer:write"


class Remote:
    """The command, always with the same server."""

    def __init__(self, server: Server, directory: Path, *more: str) -> None:
        self.cli = Cli(directory / "nothing-here")
        self._server = server
        self._more = more

    @property
    def where(self) -> list[str]:
        host, port = self._server.address
        return ["--url", f"http://{host}:{port}", *self._more]

    def run(self, *words: object, stdin: str = "") -> Outcome:
        return self.cli.run(*words, *self.where, stdin=stdin)

    def ok(self, *words: object, stdin: str = "") -> Outcome:
        return self.cli.ok(*words, *self.where, stdin=stdin)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server")).start()
    yield server
    server.close()


@pytest.fixture
def remote(server: Server, tmp_path: Path) -> Remote:
    return Remote(server, tmp_path)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of the test's own: all share one server."""
    return re.sub(r"\W", "-", request.node.name)[:200]


def test_what_is_appended_is_read(remote: Remote, topic: str) -> None:
    told = remote.ok("append", topic, '{"id": 1}', '"two"', "--tag", "new", "--node", "web")

    shown = remote.ok("read", topic, "--json").json_lines

    assert told.out == f"appended 2 records to {topic}, seq 1..2 (disk, new topic)\n"
    assert [(r["seq"], r["tag"], r["node"], r["data"]) for r in shown] == [
        (1, "new", "web", {"id": 1}),
        (2, "new", "web", "two"),
    ]
    assert not remote.cli.data_dir.exists()


def test_payloads_keep_their_text_and_their_meta(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, '{"big": 12345678901234567890123}', "--meta", '{"k": [1]}')

    shown = remote.ok("read", topic, "--json").out

    assert '"data":{"big": 12345678901234567890123}' in shown
    assert json.loads(shown)["meta"] == {"k": [1]}


def test_lines_come_from_a_pipe_in_batches_and_all_are_read(remote: Remote, topic: str) -> None:
    lines = "".join(f"{number}\n" for number in range(2_500))

    answer = remote.ok("append", topic, "--json", stdin=lines).json

    assert (answer["count"], answer["durability"]) == (2_500, "disk")
    shown = remote.ok("read", topic, "--all", "--json").json_lines
    assert [record["data"] for record in shown] == list(range(2_500))
    assert len(remote.ok("read", topic).out.splitlines()) == 256


def test_a_key_makes_a_second_run_harmless(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, "1", "--key", "k")

    again = remote.ok("append", topic, "1", "--key", "k", "--json").json

    assert again["deduped"] == 1
    assert len(remote.ok("read", topic, "--json").json_lines) == 1


def test_a_topic_is_created_configured_listed_and_dropped(remote: Remote, topic: str) -> None:
    assert remote.ok("create", topic, "--durability", "fsync").out.startswith("created")
    told = remote.ok("create", topic, "--cap-records", "3", "--json").json
    listed = remote.ok("topics", topic, "--json").json_lines

    assert told["existed"] is True
    assert [(info["name"], info["config"]["cap_records"]) for info in listed] == [(topic, 3)]
    assert topic in remote.ok("topics").out
    assert remote.ok("drop", topic, "--yes").out == f"dropped topic {topic} with 0 records\n"
    assert remote.run("drop", topic, "--yes").code == ExitCode.TOPIC_NOT_FOUND


def test_a_class_the_topic_does_not_have_is_refused(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, "1", "--durability", "fsync")

    assert remote.run("append", topic, "1", "--durability", "disk").code == ExitCode.USAGE


def test_records_are_deleted_by_tag_and_by_seq(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, "1", "2", "--tag", "a:1")
    remote.ok("append", topic, "3", "4")

    assert remote.ok("delete", topic, "--tag", "a:*", "--json").json["deleted"] == 2
    assert remote.ok("delete", topic, "--before-seq", "4", "--json").json["deleted"] == 1
    assert [r["seq"] for r in remote.ok("read", topic, "--json").json_lines] == [4]


def test_a_gap_is_shown_in_its_place(remote: Remote, topic: str) -> None:
    remote.ok("create", topic, "--cap-records", "2")
    remote.ok("append", topic, "1", "2", "3", "4", "5")

    gap, *records = remote.ok("read", topic, "--json").json_lines

    assert (gap["gap"]["first"], gap["gap"]["last"], gap["gap"]["reason"]) == (1, 3, "cap")
    assert [record["seq"] for record in records] == [4, 5]


def test_a_full_topic_has_its_exit_code(remote: Remote, topic: str) -> None:
    remote.ok("create", topic, "--cap-records", "1", "--discard", "reject")
    remote.ok("append", topic, "1")

    assert remote.run("append", topic, "2").code == ExitCode.TOPIC_FULL


def test_the_newest_records_are_printed(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, *range(30))

    shown = remote.ok("tail", topic, "--json").json_lines

    assert [record["data"] for record in shown] == list(range(20, 30))
    assert remote.ok("tail", topic, "--last", "0").out == ""


def test_errors_are_those_of_a_directory(remote: Remote, topic: str) -> None:
    missing = remote.run("read", topic, "--json")

    assert missing.code == ExitCode.TOPIC_NOT_FOUND
    assert json.loads(missing.err)["error"]["code"] == "topic_not_found"
    assert remote.run("append", "not a name", "1").code == ExitCode.USAGE


class Tail:
    """`tail --follow` in a process; lines are read as they come."""

    def __init__(self, remote: Remote, topic: str, *more: str) -> None:
        words = ["tail", topic, "--follow", "--json", *more, *remote.where]
        self.process = subprocess.Popen(
            remote.cli.command(*words),
            env=remote.cli.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # A test that waits for a line that never comes must end.
        self._guard = threading.Timer(4 * DEADLINE_S, self.process.kill)
        self._guard.start()

    def line(self) -> dict[str, object]:
        assert self.process.stdout is not None
        found: dict[str, object] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> int:
        try:
            self.process.communicate(timeout=DEADLINE_S)
            return self.process.returncode
        finally:
            self._guard.cancel()
            self.process.kill()


def test_following_prints_what_comes_and_ends_with_the_topic(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, "1")
    tail = Tail(remote, topic)

    assert tail.line()["data"] == 1
    remote.ok("append", topic, "2")
    assert tail.line()["data"] == 2
    remote.ok("drop", topic, "--yes")

    assert tail.end() == ExitCode.OK


def test_following_ends_when_nothing_came_for_so_long(remote: Remote, topic: str) -> None:
    remote.ok("append", topic, "1")

    shown = remote.ok("tail", topic, "--follow", "--timeout", "0.2", "--json")

    assert [record["data"] for record in shown.json_lines] == [1]


def test_following_goes_on_when_the_server_is_started_again(tmp_path: Path) -> None:
    server = Server(tmp_path / "server").start()
    try:
        remote = Remote(server, tmp_path)
        remote.ok("append", "t", "1", "--durability", "fsync")
        tail = Tail(remote, "t")
        assert tail.line()["data"] == 1

        server.env["PENSTOCK_PORT"] = str(server.address[1])
        server.kill()
        server.start()
        remote.ok("append", "t", "2")

        assert tail.line()["data"] == 2
        remote.ok("drop", "t", "--yes")
        assert tail.end() == ExitCode.OK
    finally:
        server.close()


# Who may, and who answers.


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("guarded")
    server = Server(home, {"PENSTOCK_API_KEYS": KEYS}).start()
    yield server
    server.close()


def test_a_token_comes_from_a_file_or_from_the_environment(guarded: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("all-of-it\n")
    remote = Remote(guarded, tmp_path)

    assert remote.run("topics").code == ExitCode.DENIED
    assert Remote(guarded, tmp_path, "--token-file", str(file)).run("topics").code == ExitCode.OK
    remote.cli.env["PENSTOCK_TOKEN"] = "all-of-it"
    assert remote.run("topics").code == ExitCode.OK
    remote.cli.env["PENSTOCK_TOKEN"] = "unheard-of"
    outcome = remote.run("topics")
    assert outcome.code == ExitCode.DENIED
    assert "unheard-of" not in outcome.out + outcome.err


def test_a_key_that_may_only_write_writes(guarded: Server, tmp_path: Path) -> None:
    remote = Remote(guarded, tmp_path)
    remote.cli.env["PENSTOCK_TOKEN"] = "writer"

    told = remote.ok("append", "t", "1").out

    assert "class unknown" in told
    assert remote.run("read", "t").code == ExitCode.DENIED
    remote.cli.env["PENSTOCK_TOKEN"] = "reader"
    assert remote.ok("read", "t", "--json").json["data"] == 1
    assert remote.run("append", "t", "1").code == ExitCode.DENIED


@pytest.mark.parametrize("content", ["", None])
def test_a_token_file_that_holds_none_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    cli = Cli(tmp_path / "data")

    outcome = cli.run("topics", "--url", "http://127.0.0.1:1", "--token-file", file)

    assert outcome.code == ExitCode.USAGE
    assert str(file) in outcome.err


def test_a_token_file_without_a_url_is_refused(tmp_path: Path) -> None:
    outcome = Cli(tmp_path / "data").run("topics", "--token-file", tmp_path / "token")

    assert outcome.code == ExitCode.USAGE
    assert "--url" in outcome.err


@pytest.mark.parametrize("url", ["127.0.0.1:4000", "ftp://a", ""])
def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    assert Cli(tmp_path / "data").run("topics", "--url", url).code == ExitCode.USAGE


def test_where_nobody_answers_the_exit_code_says_so(tmp_path: Path) -> None:
    outcome = Cli(tmp_path / "data").run("topics", "--url", "http://127.0.0.1:1", "--json")

    assert outcome.code == ExitCode.UNREACHABLE
    assert json.loads(outcome.err)["error"]["code"] == "unreachable"
    assert "refused" in outcome.err


def test_no_secret_is_taken_from_a_url(tmp_path: Path) -> None:
    outcome = Cli(tmp_path / "data").run("topics", "--url", "http://me:s3cret@127.0.0.1:1")

    assert outcome.code == ExitCode.USAGE
    assert "s3cret" not in outcome.err
    assert os.environ.get("PENSTOCK_TOKEN") is None
