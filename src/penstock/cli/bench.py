"""`penstock bench`: what the log and the server do here, measured beside what bounds them."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from penstock.cli import output
from penstock.cli.benchmarks import Figure, log_figures
from penstock.cli.options import ScratchDir
from penstock.cli.scratch import kind_of_filesystem, scratch
from penstock.codec import kernel


class Report(msgspec.Struct, frozen=True):
    machine: str
    python: str
    kernel: str
    figures: list[Figure]


class Peer(msgspec.Struct, frozen=True):
    """A program that was measured beside ours; no version where it is missing."""

    name: str
    version: str
    note: str


class ServerReport(msgspec.Struct, frozen=True):
    machine: str
    disk: str
    cores: str
    python: str
    kernel: str
    peers: list[Peer]
    figures: list[Figure]
    commands: list[str]
    disturbance: float = 0.0  # the most cores that other work used meanwhile


_QUIET_CORES = 0.3
Seconds = Annotated[float, typer.Option(min=0.05, help="How long each measurement takes.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Measure, as ratios within one run.")
    group.command("log")(log)
    group.command("server")(server)
    group.command("queue")(queue)
    group.command("sender")(sender)
    group.command("spark")(spark)
    app.add_typer(group, name="bench")


def log(
    directory: ScratchDir = None,
    scale: Annotated[
        float, typer.Option(help="1 is the full run; 0.1 is ten times shorter.")
    ] = 1.0,
    only: Annotated[str, typer.Option(help="Run the parts whose name starts with this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The embedded log: append, group commit, read, recovery, delete by tag."""
    _measured(lambda root: log_figures(root, scale, only), directory, as_json)


def server(
    directory: ScratchDir = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, help="How long each measurement takes; below 1, one round.")
    ] = 2.0,
    only: Annotated[str, typer.Option(help="Run the parts whose name starts with this.")] = "",
    pin: Annotated[bool, typer.Option(help="Keep the load generator on a core of its own.")] = True,
    as_json: AsJson = False,
) -> None:
    """The server over loopback, beside nginx, Redis and NATS: write, read, watch.

    Parts: post, batch, binary, diff, watch, socket.
    """
    # Here, because no other verb should pay for loading it.
    from penstock.cli.benchmarks.peers import PEERS
    from penstock.cli.benchmarks.server import chosen, server_figures, stand_in
    from penstock.cli.benchmarks.server_disk import sync_ms

    chosen(only)  # a wrong name is told before anything is started
    with scratch(directory, "bench") as root:
        stand = stand_in(root, seconds, pinned=pin)
        report = ServerReport(
            _machine(),
            f"{kind_of_filesystem(root)}, a write with sync takes {sync_ms(root):.2f} ms",
            stand.cores.text,
            platform.python_version(),
            _kernel(),
            [Peer(peer.program, peer.version, peer.note) for peer in PEERS],
            [],
            [],
        )
        if not as_json:
            _head(report)
        _take(server_figures(stand, only), report.figures, as_json)
        report.commands.extend(stand.commands)
        report = msgspec.structs.replace(report, disturbance=stand.disturbance)
    if as_json:
        output.line(msgspec.json.encode(report).decode())
        return
    output.line()
    for command in report.commands:
        output.line(f"measured: {command}")
    if report.disturbance > _QUIET_CORES:
        output.line()
        output.line(
            f"disturbed: other work used up to {report.disturbance:.1f} cores. Take no goal for "
            "reached or missed by this run; only CPU times hold."
        )


def queue(directory: ScratchDir = None, seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Queues: claim and acknowledge, embedded and over HTTP, beside beanstalkd and PostgreSQL."""
    from penstock.cli.benchmarks.queues import queue_figures

    _measured(lambda root: queue_figures(root, seconds), directory, as_json)


def sender(directory: ScratchDir = None, seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Senders: a flush, rows end to end, idling; beside the official questdb client."""
    from penstock.cli.benchmarks.senders import sender_figures

    _measured(lambda root: sender_figures(root, seconds), directory, as_json)


def spark(
    directory: ScratchDir = None,
    records: Annotated[int, typer.Option(min=1000, help="How many, of about 100 B.")] = 5_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Of each measurement; the best counts.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Spark: scan, typed columns, a range, a stream, the sink; beside Parquet and JSON lines."""
    from penstock.cli.benchmarks.spark import spark_figures
    from penstock.spark import session  # noqa: F401 - fails first, with what is missing

    _measured(lambda root: spark_figures(root, records, rounds), directory, as_json)


def _measured(
    figures_in: Callable[[str], Generator[Figure]], directory: Path | None, as_json: bool
) -> None:
    """Measure in a scratch folder, and print figures as they are taken, or a report at the end."""
    report = Report(_machine(), platform.python_version(), _kernel(), [])
    if not as_json:
        output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
        output.line()
    with scratch(directory, "bench") as root:
        _take(figures_in(root), report.figures, as_json)
    if as_json:
        output.line(msgspec.json.encode(report).decode())


def _take(figures: Generator[Figure], into: list[Figure], as_json: bool) -> None:
    # Closed here, whatever happens: that ends the servers which write into the scratch folder.
    with contextlib.closing(figures):
        for figure in figures:
            into.append(figure)
            if not as_json:
                output.line(_row(figure))
                output.flush()


def _head(report: ServerReport) -> None:
    output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
    output.line(f"disk: {report.disk}; {report.cores}")
    for peer in report.peers:
        output.line(f"{peer.name}: {peer.version or 'missing'}; {peer.note}")
    output.line()


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def _kernel() -> str:
    return "compiled" if kernel.COMPILED else "interpreted"


def _row(figure: Figure) -> str:
    goal = ""
    if figure.goal is not None:
        # What is counted in whole pieces needs no more digits than it had; a ratio does.
        digits = 1 if figure.goal >= 1 else 2
        goal = f"goal {'≤' if figure.at_most else '≥'} {figure.goal:,.{digits}f}"
    mark = "" if figure.holds is None else ("ok" if figure.holds else _missed(figure))
    value = "–" if math.isnan(figure.value) else f"{figure.value:,.{_digits(figure)}f}"
    what = f"{figure.name:<58} {value:>14} {figure.unit:<10}"
    return f"{what} {goal:<20} {mark:<6} {figure.note}".rstrip()


def _digits(figure: Figure) -> int:
    return 3 if figure.unit == "ms" and figure.value < 10 else 2 if figure.unit == "times" else 1


def _missed(figure: Figure) -> str:
    return "above" if figure.at_most else "below"
