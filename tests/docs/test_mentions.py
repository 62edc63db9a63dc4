"""What exists is written down: every setting, figure, error, command, frame type and verb."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

import penstock
from penstock import config, errors, limits, testing
from penstock.cli.exit_codes import ExitCode
from penstock.cli.main import app
from penstock.codec.frame import FrameType
from penstock.config import Settings
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.engine import Log
from penstock.engine.stats import LogStats
from penstock.errors import InvalidArgument
from penstock.sender import metrics as sender_metrics
from penstock.sender.counters import Counters, SenderStatus
from penstock.server import metrics, openapi
from penstock.server.http.routes import Route
from penstock.server.openapi_errors import FAULTS, SOCKET_FAULTS, STREAM_FAULTS, ErrorCode
from penstock.server.settings import ServerSettings, server_settings
from penstock.types import Appended, Cause, Gap, Page, Position, RouterInfo, TopicConfig, TopicInfo
from penstock.wire.models import (
    BatchBody,
    DeleteBody,
    DiffBody,
    Follow,
    PositionBody,
    Publish,
    RouterBody,
    Subscribe,
    Unsubscribe,
    WatchBody,
    WriteBody,
)
from tests.docs.pages import everything, page, rows
from tests.server.routes import routes

CONFIG = "docs/operations/config.md"
EMBEDDED = "docs/embedded.md"
HTTP = "docs/api/http.md"
METRICS = "docs/operations/metrics.md"
SETTINGS = {row[0]: row for row in rows(CONFIG, "## The log") if row[1].startswith("PENSTOCK_")}
OF_SERVER = {row[0]: row for row in rows(CONFIG, "## The server") if row[1].startswith("PENSTOCK_")}


def errors_there_are() -> list[str]:
    found = inspect.getmembers(errors, inspect.isclass)
    return [name for name, kind in found if issubclass(kind, errors.PenstockError)]


def commands() -> list[str]:
    """Every command as one types it, without `penstock`."""

    def walk(command: Any, path: str) -> list[str]:
        if not hasattr(command, "list_commands"):
            return [path]
        context = typer.Context(command)
        return [
            leaf
            for name in command.list_commands(context)
            for leaf in walk(command.get_command(context, name), f"{path} {name}".strip())
        ]

    return walk(typer.main.get_command(app), "")


def say(name: str, text: str) -> bool:
    """Is this word written as code?"""
    return re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`", text) is not None


# Settings.


def test_the_table_of_settings_has_every_field_and_no_other() -> None:
    assert list(SETTINGS) == list(Settings.__struct_fields__)


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_setting_has_the_variable_and_the_default_that_the_table_says(name: str) -> None:
    _, variable, default, _, meaning = SETTINGS[name]

    assert variable == f"PENSTOCK_{name.upper()}"
    assert meaning.endswith(".")
    if name != "wal_shards":  # it depends on the machine
        assert msgspec.structs.asdict(Settings())[name] == getattr(
            config.from_environment({variable: default}), name
        )


@pytest.mark.parametrize("name", [n for n in SETTINGS if " to " in SETTINGS[n][3]])
def test_a_setting_has_the_range_that_the_table_says(name: str) -> None:
    low, high = map(int, SETTINGS[name][3].split(" to "))

    assert getattr(Settings(**{name: low}), name) == low
    assert getattr(Settings(**{name: high}), name) == high
    for wrong in (low - 1, high + 1):
        with pytest.raises(InvalidArgument, match=name):
            Settings(**{name: wrong})


# Figures.


def test_the_table_of_metrics_has_every_field_and_no_other() -> None:
    named = [row[0] for row in rows(METRICS) if row[1] in KINDS]

    assert [name for name in named if not name.startswith("penstock_")] == list(
        LogStats.__struct_fields__
    )


KINDS = {"gauge", "counter", "text", "histogram"}


@pytest.fixture
def figures(tmp_path: Path) -> Iterator[metrics.Metrics]:
    with penstock.open(tmp_path, settings=Settings(wal_shards=1, background=False)) as log:
        log.append("t", [1])
        counted = [field.name for field in fields(metrics.Gauges) if field.name != "pressure"]
        gauges = metrics.Gauges(**dict.fromkeys(counted, 0))  # type: ignore[arg-type]
        yield metrics.gather(log.core, gauges, lambda _: True)


def test_the_table_of_series_has_every_series_and_no_other(figures: metrics.Metrics) -> None:
    shown = re.findall(r"^# TYPE (\S+) (\S+)$", metrics.as_text(figures).decode(), re.MULTILINE)
    table = [(row[0], row[1]) for row in rows(METRICS, "## Over HTTP") if row[1] in KINDS]

    assert table == shown


def test_the_table_of_a_senders_series_has_every_series_and_no_other() -> None:
    status = SenderStatus(Counters(), -1, -1, 0, 0.0, False, "", 0, "")
    kinds = re.findall(r"# TYPE (\S+) (\S+)", sender_metrics.page("edge", status))

    table = [(row[0], row[1]) for row in rows(METRICS, "## Senders") if row[1] in KINDS]

    assert table == kinds


def test_every_member_of_the_metrics_as_json_is_mentioned(figures: metrics.Metrics) -> None:
    text = page(METRICS).split("## Over HTTP")[1]
    found = msgspec.to_builtins(metrics.as_json(figures))

    missing = [name for name in (*found, *found["wal"]) if not say(name, text)]

    assert not missing


# The server.


def test_the_table_of_server_settings_has_every_field_and_no_other() -> None:
    assert list(OF_SERVER) == list(ServerSettings.__struct_fields__)


@pytest.mark.parametrize("name", ServerSettings.__struct_fields__)
def test_a_server_setting_has_the_variable_and_the_default_that_the_table_says(name: str) -> None:
    _, variable, default, meaning = OF_SERVER[name]

    assert variable == f"PENSTOCK_{name.upper()}"
    assert meaning.endswith(".")
    found = getattr(server_settings({variable: default} if default else {}), name)
    assert found == getattr(ServerSettings(), name)
    assert str(found).lower() == default


each_route = pytest.mark.parametrize(
    "route", routes(), ids=lambda route: f"{route.method} {route.template}"
)


@each_route
def test_a_route_is_in_the_table_of_routes_with_its_scope(route: Route) -> None:
    table = [row for row in rows(HTTP, "## All routes") if row[0] == route.method]
    found = [row for row in table if route.template in re.split(r"[\[\], ]", row[1])]

    assert len(found) == 1
    assert found[0][2] in openapi.scope_words(route)


@each_route
def test_a_route_has_its_section_or_is_an_alias(route: Route) -> None:
    text = "".join(page(f"docs/api/{name}.md") for name in ("http", "sse", "websocket"))
    heading = f"{route.method} {route.template}"

    assert re.search(rf"^##+ {heading}$|^`{heading}`: |^Also at `{route.template}`", text, re.M)


@pytest.mark.parametrize("fault", [*SOCKET_FAULTS, *STREAM_FAULTS], ids=lambda fault: fault.code)
def test_a_code_of_a_stream_is_on_the_pages_of_streams(fault: ErrorCode) -> None:
    assert say(fault.code, page("docs/api/sse.md") + page("docs/api/websocket.md"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.status}-{fault.code}")
def test_a_code_is_in_the_table_of_errors_with_its_detail(fault: ErrorCode) -> None:
    (row,) = (r for r in rows(HTTP, "## Errors") if r[:2] == [str(fault.status), fault.code])

    assert set(re.findall(r"[a-z_]{4,}|max", row[3])) >= set(fault.detail)


@pytest.mark.parametrize(
    "struct",
    [WriteBody, BatchBody, DiffBody, DeleteBody, WatchBody, Follow, PositionBody, RouterBody],
    ids=lambda struct: struct.__name__,
)
def test_every_field_of_a_request_is_mentioned(struct: type[msgspec.Struct]) -> None:
    missing = [name for name in struct.__struct_fields__ if not say(name, page(HTTP))]

    assert not missing


@pytest.mark.parametrize("struct", [Subscribe, Publish, Unsubscribe], ids=lambda s: s.__name__)
def test_every_field_of_a_command_is_mentioned(struct: type[msgspec.Struct]) -> None:
    text = page("docs/api/websocket.md") + page(HTTP)

    assert not [name for name in struct.__struct_fields__ if not say(name, text)]


# Errors.


@pytest.mark.parametrize("name", errors_there_are())
def test_an_error_is_in_the_tree_that_people_read(name: str) -> None:
    tree = page(EMBEDDED).split("## Errors")[1]

    assert re.search(rf"\b{name}\b", tree)


@pytest.mark.parametrize(
    "name", ["CorruptFrame", "LogFailed", "DirectoryInUse", "FormatTooNew", "Closed", "Overloaded"]
)
def test_an_error_that_wants_an_operator_is_explained(name: str) -> None:
    assert say(name, page("docs/operations/recovery.md") + page("docs/guarantees.md"))


# The command line.


@pytest.mark.parametrize("command", commands())
def test_a_command_is_mentioned(command: str) -> None:
    assert say(command, everything())


def test_every_command_that_the_docs_name_exists() -> None:
    known = {command.split(" ")[0] for command in commands()}
    text = everything()
    named = re.findall(r"`penstock ([a-z][a-z-]*)", text)
    named += re.findall(r"^(?:\$ )?penstock ([a-z][a-z-]*)", text, re.MULTILINE)

    assert named
    assert set(named) <= known


@pytest.mark.parametrize("code", ExitCode)
def test_an_exit_code_is_in_the_table(code: ExitCode) -> None:
    table = {row[0]: row[1] for row in rows("docs/operations/cli.md", "## Exit codes")}

    assert table[str(int(code))] == code.name.lower()


# Frames and losses.


def test_the_table_of_frame_types_has_every_type_and_no_other() -> None:
    table = {row[1]: int(row[0]) for row in rows("docs/format/frame.md") if row[0].isdecimal()}
    named = {name: number for name, number in table.items() if name[0].isupper()}

    assert named == {kind.name.title().replace("_", ""): int(kind) for kind in FrameType}


@pytest.mark.parametrize("kind", FrameType)
def test_a_frame_type_has_its_section(kind: FrameType) -> None:
    name = kind.name.title().replace("_", "")

    assert re.search(rf"^### .*\b{int(kind)} {name}\b", page("docs/format/frame.md"), re.MULTILINE)


@pytest.mark.parametrize("where", [EMBEDDED, "docs/adr/0004-a-gap-is-a-value.md"])
def test_the_reasons_of_a_gap_are_those_that_exist(where: str) -> None:
    words = {cause.word for cause in Cause}

    assert {row[0] for row in rows(where)} & (words | {"crash"}) == words


# Python.


@pytest.mark.parametrize("name", [n for n in penstock.__all__ if n != "open"])
def test_a_public_name_is_mentioned(name: str) -> None:
    assert say(name, everything()) or name in errors_there_are()


@pytest.mark.parametrize("name", [n for n in vars(Log) if not n.startswith("_")])
def test_a_verb_is_on_the_page_of_verbs(name: str) -> None:
    headings = re.findall(r"^## (.*)$", page(EMBEDDED), re.MULTILINE)

    assert name in re.findall(r"\w+", " ".join(headings)) or name == "close"
    assert say(name, page(EMBEDDED)) or f"log.{name}(" in page(EMBEDDED)


@pytest.mark.parametrize(
    "kind", [Appended, Page, Gap, Position, RouterInfo, TopicConfig, TopicInfo, CheckpointReport]
)
def test_the_fields_of_an_answer_are_mentioned(kind: type) -> None:
    names = getattr(kind, "__struct_fields__", None) or kind.__dataclass_fields__
    text = page(EMBEDDED)

    missing = [n for n in names if not re.search(rf"\b{n}\b", text)]

    assert not missing


@pytest.mark.parametrize("name", testing.__all__)
def test_a_stand_in_for_tests_is_mentioned(name: str) -> None:
    assert say(name, page("docs/testing.md"))


def test_the_table_of_limits_has_the_limits_that_hold() -> None:
    table = {row[0]: row[1] for row in rows(EMBEDDED, "## Limits")}

    def has(row: str, *values: str) -> bool:
        return all(value in table[row] for value in values)

    assert has("topic name", str(limits.TOPIC_NAME_CHARS_MAX))
    assert has("tag", str(limits.TAG_BYTES_MAX))
    assert has("node", str(limits.NODE_BYTES_MAX))
    assert has("idempotency key", str(limits.KEY_BYTES_MAX), f"{limits.IDEMPOTENCY_KEYS_MAX:,}")
    assert has("meta", f"{limits.META_BYTES_MAX // limits.KIB} KiB", str(limits.META_KEYS_MAX))
    assert has("data and meta of a record", _mib(limits.RECORD_BYTES_MAX))
    assert has("one append", f"{limits.BATCH_RECORDS_MAX:,}", _mib(limits.BATCH_BYTES_MAX))
    assert has("one read", f"{limits.READ_RECORDS_MAX:,}", _mib(limits.READ_BYTES_MAX))
    assert has("one read", f"{limits.READ_SCAN_MAX:,}")
    assert has("topics", f"{limits.TOPICS_MAX:,}")
    assert has("positions", f"{limits.POSITIONS_MAX:,}")
    assert has("routers", f"{limits.ROUTERS_MAX:,}")
    assert has("copies of copies", str(limits.HOPS_MAX))
    assert has("a shard's queue", f"{limits.SHARD_QUEUE_SUBMISSIONS_MAX:,}")
    assert has("a shard's queue", _mib(limits.SHARD_QUEUE_BYTES_MAX))
    assert has("an ephemeral topic", _mib(limits.EPHEMERAL_BYTES_MAX))
    assert has("WAL ahead of checkpoints", f"{limits.UNABSORBED_BYTES_MAX >> 30} GiB")


def _mib(size: int) -> str:
    return f"{size // limits.MIB} MiB"
