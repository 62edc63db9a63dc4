"""`penstock features apply`: register what a file declares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import features_source, output, target
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.clock import SystemClock
from penstock.errors import ForceRequired
from penstock.feature_types import FeatureTableState, Registered

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.engine import Log

_SIGNS = {"added": "+", "changed": "~", "removed": "-"}
_STYLES = {"added": "green", "changed": "yellow", "removed": "red"}
_WAIT_STEP_S = 1.0


def apply(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="A JSON file, - for stdin, a Python file (.py), or module:attribute.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes, and make none.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Permit changes that lose values.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Remove what FILE does not declare.")
    ] = False,
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait", min=0.0, metavar="SECONDS", help="Wait until new features are built."
        ),
    ] = 0.0,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Register the events and feature tables that a file declares.

    They are added, or replace those of the same names. A Python file is your own code and runs with
    your rights; everything at its top that `features.event` and `features.table` made is
    registered. New and changed features are built from the records of their topics, in a directory
    while a command has it open. Exit code 6 when they are not ready after --wait.
    """
    nodes = features_source.nodes_of(file)
    with target.existing_or_new(target.Target(data_dir, url, token_file)) as log:
        try:
            done = log.features.register(*nodes, dry_run=dry_run, force=force, whole=whole)
        except ForceRequired as error:
            _print_changes(error.changes, on_stderr=True)
            error.args = (str(error).replace("`force` permits it", "--force permits it"),)
            raise
        states = _waited(log, done, wait_s)
    if as_json:
        shown = {"version": done.version, "changed": done.is_changed, "dry_run": dry_run}
        output.json_line({**shown, "changes": done.changes, "tables": states})
    else:
        _print_changes(done.changes)
        output.line(_summary(done, states))
    if wait_s and not dry_run and set(states.values()) - {"ready"}:
        raise typer.Exit(ExitCode.OVERLOADED)


def _waited(log: Log | Client, done: Registered, wait_s: float) -> dict[str, FeatureTableState]:
    """The states of the tables, when all are ready or the time is over."""
    states = dict(done.tables)
    if not wait_s or done.is_dry_run:
        return states
    clock = SystemClock()
    deadline = clock.monotonic() + wait_s
    with output.progress("Building") as step:
        while "building" in states.values() and clock.monotonic() < deadline:
            left = min(deadline - clock.monotonic(), _WAIT_STEP_S)
            log.features.register({}, wait_s=max(left, 0.0))
            tables = log.features.tables()
            states = {table.name: table.state for table in tables}
            heads = sum(table.watermarks.committed for table in tables)
            step(heads - sum(max((p.lag for p in one.parts), default=0) for one in tables), heads)
    return states


def _print_changes(changes: Iterable[dict[str, Any]], *, on_stderr: bool = False) -> None:
    held = list(changes)
    width = max((len(_subject(one)) for one in held), default=0)
    for one in held:
        sign, style = _SIGNS[one["change"]], _STYLES[one["change"]]
        text = f"{_subject(one).ljust(width)}  {_cost(one)}"
        if on_stderr:
            output.info(f"{sign} {text}")
        else:
            output.line(f"{output.paint(sign, style)} {text}")


def _subject(change: dict[str, Any]) -> str:
    return f"{change['node']} {change['name']}"


def _cost(change: dict[str, Any]) -> str:
    members = ", ".join(
        f"{name} {_member(one['from'])} -> {_member(one['to'])}"
        for name, one in change.get("members", {}).items()
        if not isinstance(one["from"] or one["to"], dict)
    )
    why = str(change["why"]).removeprefix("it is ")
    if change["is_destructive"]:
        why += " (needs --force)"
    return f"{members}: {why}" if members else why


def _member(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else output.json_text(value)


def _summary(done: Registered, states: dict[str, FeatureTableState]) -> str:
    if done.is_dry_run:
        what = "dry run, nothing was changed" if done.changes else "nothing would change"
        return f"{what}: version {done.version}"
    if not done.is_changed:
        return f"nothing changed: version {done.version}"
    counts = [
        f"{output.many(count, 'table')} {state}"
        for state in ("ready", "building", "failed")
        if (count := list(states.values()).count(state))
    ]
    return f"registered as version {done.version}" + (f": {', '.join(counts)}" if counts else "")
