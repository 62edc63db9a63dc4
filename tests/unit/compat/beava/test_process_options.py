"""The command line and the environment of beava's server."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import pytest

from penstock.compat.beava.process_options import ProcessOptions, options_of
from penstock.errors import InvalidArgument


def options(*argv: str, **environ: str) -> ProcessOptions:
    return options_of(argv, {f"BEAVA_{name}": value for name, value in environ.items()}, "1.2.3")


def test_nothing_given_is_what_the_original_has() -> None:
    found = options()

    assert found.addresses == {
        "http": ("127.0.0.1", 8080),
        "tcp": ("127.0.0.1", 8081),
        "admin": ("127.0.0.1", 8090),
    }
    assert PurePath(found.data_dir) == PurePath(".beava/penstock")
    assert (found.is_test_mode, found.payload_bytes_max) == (False, 4 << 20)
    assert found.log_settings == {}


def test_the_client_that_starts_a_server_says_it_by_variables() -> None:
    found = options(
        "--config",
        "/dev/null",
        LISTEN_ADDR="127.0.0.1:0",
        TCP_PORT="0",
        ADMIN_ADDR="127.0.0.1:0",
        WAL_DIR="/tmp/x/wal",
        SNAPSHOT_DIR="/tmp/x/snapshots",
        DEV_ENDPOINTS="1",
        TEST_MODE="1",
    )

    assert set(found.addresses.values()) == {("127.0.0.1", 0)}
    assert found.data_dir == "/tmp/x/wal/penstock"
    assert found.is_test_mode
    assert found.config_file == "/dev/null"


def test_an_option_comes_before_its_variable() -> None:
    found = options(
        "--http-addr=h:1",
        "--tcp-addr=t:2",
        "--data-dir=d",
        "--test-mode",
        LISTEN_ADDR="x:9",
        TCP_HOST="x",
        TCP_PORT="9",
        WAL_DIR="x",
        TEST_MODE="0",
    )

    assert (found.addresses["http"], found.addresses["tcp"]) == (("h", 1), ("t", 2))
    assert found.data_dir == "d/penstock"
    assert found.is_test_mode


@pytest.mark.parametrize(
    ("argv", "environ", "settings"),
    [
        ([], {"WAL_TICK_MS": "5000"}, {"sync_tick_ms": 1000}),
        ([], {"SNAPSHOT_INTERVAL_MS": "500"}, {"projection_interval_ms": 500}),
        ([], {"WAL_SYNC_MODE": "per-event"}, {"default_durability": "fsync"}),
        ([], {"WAL_SYNC_MODE": "periodic"}, {}),
        (["--memory-only"], {"WAL_SYNC_MODE": "per-event"}, {"default_durability": "memory"}),
    ],
)
def test_variables_become_settings_of_the_log(
    argv: list[str], environ: dict[str, str], settings: dict[str, Any]
) -> None:
    assert options(*argv, **environ).log_settings == settings


def test_our_own_variables_come_first() -> None:
    environ = {"BEAVA_WAL_TICK_MS": "5", "PENSTOCK_SYNC_TICK_MS": "7"}

    assert options_of([], environ, "1.2.3").log_settings == {}


def test_in_memory_there_is_no_directory() -> None:
    assert options("--memory-only", "--data-dir", "d").data_dir == ""


@pytest.mark.parametrize("environ", [{"LISTEN_ADDR": "here"}, {"WAL_TICK_MS": "soon"}])
def test_a_wrong_value_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"here|soon"):
        options(**environ)


def test_help_and_version_are_those_that_clients_look_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flag in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            options(flag)
        assert not ended.value.code

    said = capsys.readouterr().out
    for name in ("--http-addr", "--tcp-addr", "--data-dir", "--memory-only", "--test-mode"):
        assert name in said
    assert re.search(r"\d+\.\d+\.\d+", said.splitlines()[-1])
