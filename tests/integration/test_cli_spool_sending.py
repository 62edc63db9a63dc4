"""penstock spool drain and redrive, against a real server."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.cli.exit_codes import ExitCode
from penstock.sender.sender import Sender
from tests.integration.test_cli_main import Cli, Outcome
from tests.integration.test_cli_spool import NOWHERE, harm_frame
from tests.support.serving import DEADLINE_S, Server
from tests.support.sink import Sink, free_port

KEY = "k" * 32


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("server"))
    one.start()
    yield one
    one.close()


@pytest.fixture
def client(server: Server) -> Iterator[penstock.Client]:
    host, port = server.address
    with penstock.connect(f"http://{host}:{port}") as one:
        yield one
        for topic in one.topics():
            one.drop(topic.name)


def to(server: Server) -> str:
    return "ws::addr={}:{};".format(*server.address)


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    """Left behind: four frames for `sales`, then one for `clicks`."""
    place = tmp_path / "spool"
    place.mkdir()
    with Sender(f"{NOWHERE}sf_dir={place};sender_id=till-1;") as sender:
        for number in range(4):
            sender.append("sales", {"n": number}, tag="eu", node="x", meta={"m": number})
            sender.flush()
        sender.append_batch("clicks", [1, 2, 3])
    return place / "till-1"


def sales(client: penstock.Client) -> list[Any]:
    return [record.data["n"] for record in client.read("sales").records]


def fill_up(client: penstock.Client, room: int) -> None:
    """`sales` has room for so many records and refuses the others."""
    client.create("sales", cap_records=room, discard="reject")


# Draining.


def test_a_slot_is_drained_into_a_server(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    (slot / ".failed").write_text("a hole")

    done = cli.ok("spool", "drain", slot, "--to", to(server), "--json").json

    figures = {"acknowledged": 5, "refused": 0, "lost": 0, "left": 0, "cause": None}
    assert done == {"slot": str(slot), **figures}
    assert sales(client) == [0, 1, 2, 3]
    assert [record.data for record in client.read("clicks").records] == [1, 2, 3]
    after = cli.ok("spool", "list", slot.parent, "--json").json
    assert (after["frames"], after["failed"]) == (0, None)


def test_refused_frames_are_not_counted_as_sent(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    fill_up(client, 2)

    done = cli.run("spool", "drain", slot, "--to", to(server))

    assert done.code == ExitCode.REFUSED
    assert done.out == "3 frames acknowledged, 2 refused (in dead-letter), 0 lost, 0 left\n"
    assert "the server refused 2 frames" in done.err.splitlines()[-1]


def test_lost_frames_are_not_counted_as_sent(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    harm_frame(slot, b'{"n":2}')

    done = cli.run("spool", "drain", slot, "--to", to(server))

    assert done.code == ExitCode.DAMAGE
    assert done.out == "4 frames acknowledged, 0 refused, 1 LOST, 0 left\n"
    assert sales(client) == [0, 1, 3]


def unreachable(cli: Cli, *words: object) -> Outcome:
    """Of a command that waits a moment for a server. A machine that did not call it within that
    moment waits longer."""
    for timeout in (0.3, 3, 30):
        done = cli.run(*words, "--timeout", timeout)
        if done.code == ExitCode.UNREACHABLE:
            break
    return done


def test_without_a_server_the_cause_is_told(cli: Cli, slot: Path) -> None:
    where = f"ws::addr=127.0.0.1:{free_port()};close_flush_timeout_millis=60000;"
    words = ("spool", "drain", slot, "--to", where)

    text = unreachable(cli, *words)
    parts = unreachable(cli, *words, "--json")

    assert text.code == parts.code == ExitCode.UNREACHABLE
    assert text.out == "0 frames acknowledged, 0 refused, 0 lost, 5 left\n"
    assert "Connection refused" in text.err.splitlines()[-1]
    assert "Connection refused" in parts.json["cause"]
    assert '"code":"unreachable"' in parts.err


def test_a_server_that_falls_silent_is_given_up(cli: Cli, slot: Path) -> None:
    with Sink(lambda visit: visit.until_gone()) as sink:
        done = cli.run("spool", "drain", slot, "--to", f"ws::addr={sink.addr};", "--timeout", 0.5)

    assert done.code == ExitCode.OVERLOADED
    assert "acknowledged nothing for 0.5 s" in done.err


def test_a_token_comes_from_a_file_or_the_environment(cli: Cli, slot: Path, tmp_path: Path) -> None:
    guarded = Server(tmp_path / "guarded", {"PENSTOCK_API_KEYS": KEY})
    guarded.start()
    file = tmp_path / "token"
    file.write_text(KEY)
    cli.ok("spool", "skip", slot, "--yes")
    try:
        where = to(guarded)
        denied = cli.run("spool", "drain", slot, "--to", where)
        both = f"{where}token={KEY};"
        twice = cli.run("spool", "drain", slot, "--to", both, "--token-file", file)
        done = cli.ok("spool", "drain", slot, "--to", where, "--token-file", file)
        cli.env["PENSTOCK_TOKEN"] = KEY
        again = cli.ok("spool", "redrive", slot, "--to", where)
    finally:
        guarded.close()

    assert denied.code == ExitCode.DENIED
    assert "4 left" in denied.out
    assert twice.code == 2
    assert done.out.startswith("4 frames acknowledged")
    assert again.out.startswith("1 dead letter acknowledged")


@pytest.mark.parametrize("timeout", ["-1", "0", "nan", "inf"])
def test_a_timeout_is_a_time(cli: Cli, slot: Path, timeout: str) -> None:
    done = cli.run("spool", "drain", slot, "--to", NOWHERE, f"--timeout={timeout}")

    assert done.code == 2
    assert "--timeout" in done.err


def test_after_ctrl_c_it_says_how_far_it_came(cli: Cli, slot: Path) -> None:
    with subprocess.Popen(
        cli.command("spool", "drain", slot, "--to", f"ws::addr=127.0.0.1:{free_port()};"),
        env=cli.env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # there is no connection: it is at work
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == ExitCode.INTERRUPTED
    assert out == "0 frames acknowledged, 0 refused, 0 lost, 5 left\n"


def test_a_slot_in_use_is_not_drained(cli: Cli, slot: Path) -> None:
    with Sender(f"{NOWHERE}sf_dir={slot.parent};sender_id=till-1;"):
        assert cli.run("spool", "drain", slot, "--to", NOWHERE).code == ExitCode.IN_USE


# Dead letters.


def test_dead_letters_are_sent_again_and_go(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    fill_up(client, 2)
    cli.run("spool", "drain", slot, "--to", to(server))
    client.drop("sales")

    done = cli.ok("spool", "redrive", slot, "--to", to(server))

    assert done.out == (
        "2 dead letters acknowledged and removed, 0 refused again, 0 damaged, 0 left\n"
    )
    again = client.read("sales").records
    assert [(one.data, one.tag, one.node, one.meta) for one in again] == [
        ({"n": number}, "eu", "x", {"m": number}) for number in (2, 3)
    ]
    assert cli.ok("spool", "inspect", slot, "--json").json["dead_letters"] == []
    assert cli.ok("spool", "redrive", slot, "--to", to(server)).out == "no dead letters\n"


def test_a_dead_letter_that_is_refused_again_stays(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    cli.ok("spool", "skip", slot, "--through", 3, "--yes")
    fill_up(client, 3)

    done = cli.run("spool", "redrive", slot, "--to", f"{to(server)}on_write_error=drop;", "--json")

    figures = {"acknowledged": 3, "refused": 1, "damaged": 0, "left": 0, "cause": None}
    assert (done.code, done.json) == (ExitCode.REFUSED, {"slot": str(slot), **figures})
    assert "dead letter 3 was refused again: write_error" in done.err
    assert "LOST" not in done.err
    (letter,) = cli.ok("spool", "inspect", slot, "--json").json["dead_letters"]
    assert letter["fsn"] == 3
    assert sales(client) == [0, 1, 2]


def test_one_dead_letter_may_be_chosen_while_the_slot_is_in_use(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    cli.ok("spool", "skip", slot, "--through", 3, "--yes")

    with Sender(f"{NOWHERE}sf_dir={slot.parent};sender_id=till-1;"):
        done = cli.ok("spool", "redrive", slot, "--fsn", 2, "--to", to(server), "--json").json
        absent = cli.run("spool", "redrive", slot, "--fsn", 2, "--to", to(server))

    assert (done["acknowledged"], done["left"]) == (1, 0)
    assert sales(client) == [2]
    assert (absent.code, "no dead letter 2" in absent.err) == (2, True)


def test_without_a_server_dead_letters_stay(cli: Cli, slot: Path) -> None:
    cli.ok("spool", "skip", slot, "--through", 1, "--yes")
    where = f"ws::addr=127.0.0.1:{free_port()};"

    done = unreachable(cli, "spool", "redrive", slot, "--to", where, "--json")

    assert (done.code, done.json["left"]) == (ExitCode.UNREACHABLE, 2)
    assert "Connection refused" in done.json["cause"]
    assert len(cli.ok("spool", "export", slot, "--dead-letters").out.splitlines()) == 2


def test_a_damaged_dead_letter_holds_up_no_other(
    cli: Cli, slot: Path, server: Server, client: penstock.Client
) -> None:
    cli.ok("spool", "skip", slot, "--through", 1, "--yes")
    min((slot / "dead-letter").glob("*.frame")).write_bytes(b"junk")

    done = cli.run("spool", "redrive", slot, "--to", to(server), "--json")

    assert (done.code, done.json["damaged"]) == (ExitCode.DAMAGE, 1)
    assert sales(client) == [1]
