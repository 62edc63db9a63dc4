"""`python -m benchmarks`: the command line of the benchmarks, one command for each part."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Generator, Sequence
from typing import Annotated

import msgspec
import typer

from benchmarks.log import log_figures
from benchmarks.server_stand import Stand
from benchmarks.source_tree import WORKING_TREE
from penstock.cli import main as penstock_cli
from penstock.cli import output
from penstock.cli.figure import Figure, kernel_form, machine, print_figures, report_figures
from penstock.cli.options import ScratchDir
from penstock.cli.scratch import scratch
from penstock.storage.mounts import kind_of_filesystem

PROGRAM = "python -m benchmarks"

app = typer.Typer(
    name=PROGRAM,
    help="Measure Penstock, as ratios within one run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


class PeerReport(msgspec.Struct, frozen=True):
    """A program that was measured beside ours. The version is empty if it is not installed."""

    name: str
    version: str
    note: str


class ServerReport(msgspec.Struct, frozen=True):
    """The figures of `server` or `features`, with everything that they depend on."""

    machine: str
    disk: str
    cores: str
    python: str
    kernel: str
    peers: list[PeerReport]
    figures: list[Figure]
    commands: list[str]
    disturbance: float = 0.0  # the most cores that other work used during a measurement


_QUIET_CORES = 0.3
Seconds = Annotated[float, typer.Option(min=0.05, help="Duration of each measurement.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Only = Annotated[str, typer.Option(help="Run only the parts whose name starts with this.")]


@app.command()
def log(
    directory: ScratchDir = None,
    scale: Annotated[
        float, typer.Option(help="1 is the full run; 0.1 is ten times shorter.")
    ] = 1.0,
    only: Only = "",
    as_json: AsJson = False,
) -> None:
    """The embedded log: append, group commit, read, recovery, delete by tag."""
    report_figures(lambda root: log_figures(root, scale, only), directory, as_json=as_json)


@app.command()
def server(
    directory: ScratchDir = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, help="Duration of each measurement; below 1, one round.")
    ] = 2.0,
    only: Only = "",
    pin: Annotated[bool, typer.Option(help="Keep the load generator on a core of its own.")] = True,
    as_json: AsJson = False,
) -> None:
    """The server over loopback, beside nginx, Redis and NATS: write, read, watch.

    Parts: post, batch, binary, diff, watch, socket.
    """
    # Imported here, because the other commands do not need it.
    from benchmarks.peers import PEERS
    from benchmarks.server import chosen, server_figures, stand_in
    from benchmarks.server_disk import sync_ms

    chosen(only)  # refuses an unknown part before anything is started
    with scratch(directory, "bench") as root:
        stand = stand_in(root, seconds, pinned=pin)
        report = ServerReport(
            machine(),
            f"{kind_of_filesystem(root)}, a write with sync takes {sync_ms(root):.2f} ms",
            stand.cores.text,
            platform.python_version(),
            kernel_form(),
            [PeerReport(peer.program, peer.version, peer.note) for peer in PEERS],
            [],
            [],
        )
        _report(report, stand, server_figures(stand, only), as_json=as_json)


@app.command()
def features(
    directory: ScratchDir = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, help="Duration of each measurement; below 1, one round.")
    ] = 4.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; the median counts.")] = 5,
    only: Only = "",
    state_gb: Annotated[
        float,
        typer.Option(min=0, help="Load a snapshot of about this size, too.", show_default="none"),
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Features: push, get, idle, recover, many keys, snapshots; beside beava.

    Parts: push, get, idle, recovery, restart, replay, scale, snapshot.
    """
    from benchmarks.features import chosen, feature_figures
    from benchmarks.features_servers import PEER, peer_version
    from benchmarks.server import stand_in
    from benchmarks.server_disk import sync_ms

    chosen(only)
    with scratch(directory, "bench") as root:
        stand = stand_in(root, seconds, pinned=True, rounds=1 if seconds < 1 else rounds)
        note = "from its PyPI wheel; it acknowledges before its log is on disk"
        report = ServerReport(
            machine(),
            f"{kind_of_filesystem(root)}, a write with sync takes {sync_ms(root):.2f} ms",
            stand.cores.text,
            platform.python_version(),
            kernel_form(),
            [PeerReport(PEER, peer_version(), note)],
            [],
            [],
        )
        _report(report, stand, feature_figures(stand, only, int(state_gb * 1e9)), as_json=as_json)


@app.command()
def queue(directory: ScratchDir = None, seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Queues: claim and acknowledge, embedded and over HTTP, beside beanstalkd and PostgreSQL."""
    from benchmarks.queues import queue_figures

    report_figures(lambda root: queue_figures(root, seconds), directory, as_json=as_json)


@app.command()
def router(directory: ScratchDir = None, seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Routers: one topic copied into a hundred, and the WAL bytes that this takes."""
    from benchmarks.routers import router_figures

    report_figures(lambda root: router_figures(root, seconds), directory, as_json=as_json)


@app.command()
def sender(directory: ScratchDir = None, seconds: Seconds = 2.0, as_json: AsJson = False) -> None:
    """Senders: a flush, rows end to end, idling; beside the official questdb client."""
    from benchmarks.senders import sender_figures

    report_figures(lambda root: sender_figures(root, seconds), directory, as_json=as_json)


@app.command()
def spark(
    directory: ScratchDir = None,
    records: Annotated[
        int, typer.Option(min=1000, help="Number of records, of about 100 B each.")
    ] = 5_000_000,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of each measurement; the best counts.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Spark: scan, typed columns, a range, a stream, the sink; beside Parquet and JSON lines."""
    from benchmarks.spark import spark_figures
    from penstock.spark import session  # noqa: F401 - fails first, with what is missing

    report_figures(lambda root: spark_figures(root, records, rounds), directory, as_json=as_json)


@app.command()
def compare(
    base: Annotated[
        str,
        typer.Option(metavar="COMMIT", help="The commit to compare with, or a built folder."),
    ],
    head: Annotated[
        str, typer.Option(metavar="COMMIT", help="The other commit, or a built folder.")
    ] = WORKING_TREE,
    part: Annotated[
        str, typer.Option(metavar="PART,…", help="Compare only these parts.", show_default="all")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each tree and part.")] = 5,
    seconds: Seconds = 2.0,
    pin: Annotated[bool, typer.Option(help="Keep the load generator on a core of its own.")] = True,
    directory: ScratchDir = None,
    as_json: AsJson = False,
) -> None:
    """Two source trees in one run, alternately: the ratios of their median rates.

    Parts: post, websocket, json100, binary1000, actors; embedded: append1000, append1, fsync1,
    read1000, claims.
    """
    from benchmarks import compare as comparing
    from benchmarks.server import stand_in
    from benchmarks.server_disk import sync_ms
    from benchmarks.source_tree import prepare

    parts = comparing.chosen(part)
    with scratch(directory, "bench") as root:
        base_tree, head_tree = prepare(base, root), prepare(head, root)
        stand = stand_in(root, seconds, pinned=pin, rounds=rounds)
        report = comparing.new_report(
            base_tree,
            head_tree,
            disk=f"{kind_of_filesystem(root)}, a write with sync takes {sync_ms(root):.2f} ms",
            command=f"{PROGRAM} {shlex.join(sys.argv[1:])}",
            rounds=rounds,
            seconds=seconds,
        )
        if not as_json:
            for text in comparing.head_lines(report):
                output.line(text)
            output.flush()
        for found in comparing.comparisons(stand, parts, base_tree, head_tree):
            report.comparisons.append(found)
            if not as_json:
                output.line(comparing.row(found))
                output.flush()
    if as_json:
        output.json_line(report)
        return
    for text in comparing.tail_lines(report):
        output.line(text)


def _report(
    report: ServerReport, stand: Stand, figures: Generator[Figure], *, as_json: bool
) -> None:
    """Measure, and print what was measured and with what."""
    if not as_json:
        _print_head(report)
    report.figures.extend(print_figures(figures, as_json=as_json))
    report.commands.extend(stand.commands)
    report = msgspec.structs.replace(report, disturbance=stand.disturbance)
    if as_json:
        output.json_line(report)
    else:
        _print_tail(report)


def _print_head(report: ServerReport) -> None:
    output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
    output.line(f"disk: {report.disk}; {report.cores}")
    for peer in report.peers:
        output.line(f"{peer.name}: {peer.version or 'missing'}; {peer.note}")
    output.line()


def _print_tail(report: ServerReport) -> None:
    output.line()
    for command in report.commands:
        output.line(f"measured: {command}")
    if report.disturbance > _QUIET_CORES:
        output.line()
        output.line(
            f"disturbed: other work used up to {report.disturbance:.1f} cores. Rates and ratios of "
            "this run do not show whether a goal is met; only the CPU times are reliable."
        )


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    return penstock_cli.run(argv, app, PROGRAM)


def main() -> None:
    penstock_cli.exit_with(run(sys.argv[1:]))
