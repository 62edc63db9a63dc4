"""The command line and the environment of beava's own server, as our settings. Pure.

An option comes before its variable, and a variable before the original's default. What a variable
means here that has another form (a data directory is one, not two) is said in the page on beava.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from penstock.compat.beava.frames import PAYLOAD_BYTES_MAX
from penstock.compat.beava.listening import address_of
from penstock.errors import InvalidArgument

_TRUE: Final = ("1", "true", "yes", "on")
_HOME: Final = "penstock"  # the log's folder in the data directory
_PER_EVENT: Final = ("per-event", "per_event")
_EPILOG: Final = """\
Variables: BEAVA_LISTEN_ADDR, BEAVA_TCP_HOST, BEAVA_TCP_PORT, BEAVA_ADMIN_ADDR, BEAVA_WAL_DIR,
BEAVA_WAL_SYNC_MODE (periodic or per-event), BEAVA_WAL_TICK_MS, BEAVA_SNAPSHOT_INTERVAL_MS,
BEAVA_TCP_MAX_FRAME_BYTES, BEAVA_TEST_MODE; and PENSTOCK_*, as for `penstock serve`.
"""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """How the process runs."""

    addresses: Mapping[str, tuple[str, int]]  # http, tcp and admin
    data_dir: str  # empty: in memory only
    is_test_mode: bool
    payload_bytes_max: int
    config_file: str
    log_settings: Mapping[str, object] = field(default_factory=dict)  # PENSTOCK_* come before them


def parser(version: str, program: str = "penstock-beava") -> argparse.ArgumentParser:
    """Of the command line. The names are those of the original."""
    found = argparse.ArgumentParser(
        program,
        description="Penstock as a server for clients of beava 0.0.6.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("-c", "--config", metavar="FILE", help="must be empty, as /dev/null is")
    found.add_argument("--http-addr", metavar="ADDR", help="HTTP port [127.0.0.1:8080]")
    found.add_argument("--tcp-addr", metavar="ADDR", help="TCP port [127.0.0.1:8081]")
    found.add_argument("--admin-addr", metavar="ADDR", help="admin port [127.0.0.1:8090]")
    found.add_argument("--data-dir", metavar="DIR", help="the log is in DIR/penstock [./.beava]")
    found.add_argument("--memory-only", action="store_true", help="keep nothing after the end")
    found.add_argument("--test-mode", action="store_true", help="permit reset")
    found.add_argument(
        "-V", "--version", action="version", version=f"penstock {version} (beava 0.0.6)"
    )
    return found


def options_of(
    argv: Sequence[str], environ: Mapping[str, str], version: str, program: str = "penstock-beava"
) -> ProcessOptions:
    """From a command line. Like every parser of one it exits after --help and for a wrong one."""
    given = parser(version, program).parse_args(argv)
    tcp = f"{environ.get('BEAVA_TCP_HOST', '127.0.0.1')}:{environ.get('BEAVA_TCP_PORT', '8081')}"
    http = given.http_addr or environ.get("BEAVA_LISTEN_ADDR", "127.0.0.1:8080")
    admin = given.admin_addr or environ.get("BEAVA_ADMIN_ADDR", "127.0.0.1:8090")
    home = given.data_dir or environ.get("BEAVA_WAL_DIR", ".beava")
    return ProcessOptions(
        addresses={
            "http": address_of(http, "--http-addr"),
            "tcp": address_of(given.tcp_addr or tcp, "--tcp-addr"),
            "admin": address_of(admin, "--admin-addr"),
        },
        data_dir="" if given.memory_only else str(PurePath(home) / _HOME),
        is_test_mode=given.test_mode or environ.get("BEAVA_TEST_MODE", "").lower() in _TRUE,
        payload_bytes_max=_number(environ, "BEAVA_TCP_MAX_FRAME_BYTES", PAYLOAD_BYTES_MAX),
        config_file=given.config or "",
        log_settings=_log_settings(environ, is_memory_only=given.memory_only),
    )


def _log_settings(environ: Mapping[str, str], *, is_memory_only: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    if "BEAVA_WAL_TICK_MS" in environ:
        found["sync_tick_ms"] = min(max(_number(environ, "BEAVA_WAL_TICK_MS", 0), 1), 1000)
    if "BEAVA_SNAPSHOT_INTERVAL_MS" in environ:
        found["projection_interval_ms"] = _number(environ, "BEAVA_SNAPSHOT_INTERVAL_MS", 0)
    if is_memory_only:
        found["default_durability"] = "memory"
    elif environ.get("BEAVA_WAL_SYNC_MODE", "").lower() in _PER_EVENT:
        found["default_durability"] = "fsync"
    return {
        name: value for name, value in found.items() if f"PENSTOCK_{name.upper()}" not in environ
    }


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidArgument(f"{name}={text}: expected a whole number")
    return int(text)
