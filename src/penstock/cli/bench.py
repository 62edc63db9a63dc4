"""`penstock bench`: what the log and the server do here, measured beside what bounds them."""

from __future__ import annotations

import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import typer

from penstock.cli import output
from penstock.cli.benchmarks import Figure, log_figures
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
Directory = Annotated[str, typer.Option("--directory", help="Where to write; must be a real disk.")]
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
    directory: Directory = ".",
    scale: Annotated[
        float, typer.Option(help="1 is the full run; 0.1 is ten times shorter.")
    ] = 1.0,
    only: Annotated[str, typer.Option(help="Run the parts whose name starts with this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The embedded log: append, group commit, read, recovery, delete by tag."""
    figures: list[Figure] = []
    report = Report(_machine(), platform.python_version(), _kernel(), figures)
    if not as_json:
        output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
        output.line()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as root:
        for figure in log_figures(root, scale, only):
            figures.append(figure)
            if not as_json:
                output.line(_row(figure))
    if as_json:
        output.line(msgspec.json.encode(report).decode())


def server(
    directory: Annotated[
        str,
        typer.Option(
            "--dir", "--directory", help="Where all of them write; a real disk. Else .rig, or here."
        ),
    ] = "",
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
    from penstock.cli.benchmarks.server import chosen, server_figures, stand_in, usual_place
    from penstock.cli.benchmarks.server_disk import file_system, sync_ms

    chosen(only)  # a wrong name is told before anything is started
    with stand_in(directory or usual_place(), seconds, pinned=pin) as stand:
        report = ServerReport(
            _machine(),
            f"{file_system(stand.root)}, a write with sync takes {sync_ms(stand.root):.2f} ms",
            stand.cores.text,
            platform.python_version(),
            _kernel(),
            [Peer(peer.program, peer.version, peer.note) for peer in PEERS],
            [],
            [],
        )
        if not as_json:
            _head(report)
        for figure in server_figures(stand, only):
            report.figures.append(figure)
            if not as_json:
                output.line(_row(figure))
                output.flush()
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


def queue(directory: Directory = ".", seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Queues: claim and acknowledge, embedded and over HTTP, beside beanstalkd and PostgreSQL."""
    from penstock.cli.benchmarks.queues import queue_figures

    _measured(queue_figures, directory, seconds, as_json)


def sender(directory: Directory = ".", seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Senders: a flush, rows end to end, idling; beside the official questdb client."""
    from penstock.cli.benchmarks.senders import sender_figures

    _measured(sender_figures, directory, seconds, as_json)


def spark(
    directory: Directory = ".",
    records: Annotated[int, typer.Option(min=1000, help="How many, of about 100 B.")] = 5_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Of each measurement; the best counts.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Spark: scan, typed columns, a range, a stream, the sink; beside Parquet and JSON lines."""
    from penstock.cli.benchmarks.spark import spark_figures
    from penstock.spark import session  # noqa: F401 - fails first, with what is missing

    def take(root: str, _: float) -> Iterator[Figure]:
        return spark_figures(root, records, rounds)

    _measured(take, directory, 0.0, as_json)


def _measured(
    take: Callable[[str, float], Iterator[Figure]], directory: str, seconds: float, as_json: bool
) -> None:
    figures: list[Figure] = []
    report = Report(_machine(), platform.python_version(), _kernel(), figures)
    if not as_json:
        output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
        output.line()
    with tempfile.TemporaryDirectory(
        prefix="penstock-bench-", dir=os.path.abspath(directory)
    ) as root:
        for figure in take(root, seconds):
            figures.append(figure)
            if not as_json:
                output.line(_row(figure))
    if as_json:
        output.line(msgspec.json.encode(report).decode())


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
