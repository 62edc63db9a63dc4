"""beava's client starts our process as it starts its own, and finds everything at its place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import beava as bv
import pytest

import penstock
from tests.support.beava_embed import COMMAND, PATH, be_patient, embedded, use_our_binary
from tests.support.serving import DEADLINE_S


@bv.event
class Tick:
    user: str
    value: float


@bv.table(key="user")
def Ticks(tick: Tick) -> Any:
    return tick.group_by("user").agg(n=bv.count(window="1h"), total=bv.sum("value"))


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    be_patient(monkeypatch)
    return use_our_binary(tmp_path, monkeypatch)


def test_the_client_starts_and_ends_the_process(binary: Path) -> None:
    with embedded(test_mode=True) as app:
        assert app.ping() == {"server_version": penstock.__version__, "registry_version": 0}
        app.register(Tick, Ticks)
        for value in (1.0, 2.5):
            app.push("Tick", {"user": "ana", "value": value})

        assert app.get("Ticks", "ana") == {"n": 2, "total": 3.5}
        assert app.batch_get([("Ticks", "ana"), ("Ticks", "bo")]) == [{"n": 2, "total": 3.5}, {}]
        app.reset()
        app.register(Tick, Ticks)
        assert app.get("Ticks", "ana") == {}


def test_a_reset_needs_test_mode(binary: Path) -> None:
    with embedded() as app, pytest.raises(bv.RegistrationError, match="reset_disabled"):
        app.reset()


@contextmanager
def running(*argv: str, **env: str) -> Iterator[dict[str, str]]:
    """A process on free ports, and their URLs. It ends as it is told to."""
    ports = {"BEAVA_LISTEN_ADDR": "127.0.0.1:0", "BEAVA_TCP_PORT": "0"}
    process = subprocess.Popen(
        [*COMMAND, *argv],
        env=os.environ | PATH | ports | {"BEAVA_ADMIN_ADDR": "127.0.0.1:0"} | env,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.stdout is None:
        raise AssertionError("no pipe")
    try:
        told = [json.loads(process.stdout.readline()) for _ in range(3)]
        names = [one["kind"].removeprefix("server.").removesuffix("_bound") for one in told]
        assert names == ["http", "tcp", "admin"]
        schemes = ("http", "tcp", "http")
        yield {
            name: f"{scheme}://{one['addr']}"
            for name, scheme, one in zip(names, schemes, told, strict=True)
        }
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_restart_keeps_definition_and_rows(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path / "data"))
    with running(*where, BEAVA_WAL_SYNC_MODE="per-event") as urls, bv.App(urls["tcp"]) as app:
        app.register(Tick, Ticks)
        app.push("Tick", {"user": "ana", "value": 4.0})

    with running(*where) as urls, bv.App(urls["http"]) as app:
        assert app.ping()["registry_version"] == 1
        assert app.get("Ticks", "ana") == {"n": 1, "total": 4.0}

    with penstock.open(tmp_path / "data" / "penstock") as log:
        assert log.topic("Tick").config.durability == "fsync"
        assert [record.data for record in log.read("Tick", after=0).records] == [
            {"user": "ana", "value": 4.0}
        ]


def test_in_memory_only_nothing_stays(tmp_path: Path) -> None:
    with running("--memory-only", TMPDIR=str(tmp_path)) as urls, bv.App(urls["tcp"]) as app:
        app.register(Tick, Ticks)
        app.push("Tick", {"user": "ana", "value": 4.0})
        assert app.get("Ticks", "ana") == {"n": 1, "total": 4.0}

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--http-addr", "0.0.0.0:0"], "other machines can reach"),
        (["--config", __file__], "expected an empty file"),
        (["--tcp-addr", "there"], "expected host:port"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_a_wrong_start_says_why(argv: list[str], complaint: str) -> None:
    ended = subprocess.run(
        [*COMMAND, *argv],
        env=os.environ | PATH,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert ended.returncode == 2
    assert complaint in " ".join(ended.stderr.split())
    assert ended.stdout == ""
