"""`penstock queue`: count, append, claim, acknowledge and redrive jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from penstock.append_options import AppendKeywords
from penstock.cli import output, target
from penstock.cli.append_flags import with_append_flags
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url
from penstock.types import Job, Settled

Node = Annotated[str, typer.Option(help="Name of the worker that holds the leases.")]
Seqs = Annotated[list[int], typer.Argument(metavar="SEQ...", min=1, help="Seqs of the jobs.")]
LeaseIds = Annotated[
    list[str] | None,
    typer.Option("--lease", metavar="ID", help="The lease of each job, in the same order."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Jobs: claim, acknowledge, count.", no_args_is_help=True)
    for verb in (counts, put, schedules, claim, ack, nack, extend, redrive):
        group.command()(verb)
    app.add_typer(group, name="queue", rich_help_panel=RECORDS)


def counts(
    topic: Topic,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Count the jobs that are ready, in flight, delayed and dead-lettered."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.queue_counts(topic)
    if as_json:
        output.json_line({"topic": topic, **msgspec.structs.asdict(found)})
        return
    output.line(
        f"{topic}: {found.ready} ready, {found.in_flight} in flight, {found.delayed} delayed, "
        f"{found.dead_lettered} dead-lettered"
    )


@with_append_flags(without=["create"])
def put(
    topic: Topic,
    data: Annotated[
        list[str], typer.Argument(metavar="JSON...", show_default=False, help="Jobs as JSON.")
    ],
    tag: Annotated[str | None, typer.Option(help="Tag of every job.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    *,
    options: AppendKeywords,
) -> None:
    """Append jobs: for now, for later, or on a schedule."""
    records = [text.encode() for text in data]
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        options["create"] = False
        added = log.append(topic, records, tag=tag, **options)
    if as_json:
        output.json_line(added)
    else:
        output.line(f"{output.many(added.count, 'job')} to {topic}, up to seq {added.last_seq}")


def schedules(
    topic: Topic,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the jobs that have a schedule, and when each is due next.

    `penstock delete TOPIC --seq SEQ` ends one.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        found = log.schedules(topic)
        target.end_reading(log)
    if as_json:
        output.json_line({"topic": topic, "schedules": found})
    elif found:
        rows = [(str(one.seq), one.cron, one.timezone, output.moment(one.due)) for one in found]
        output.table(("seq", "cron", "timezone", "due"), rows, right="seq")
    else:
        output.info(f"{topic} has no job with a schedule")


def claim(
    topic: Topic,
    node: Node,
    most: Annotated[int, typer.Option("--max", min=1, max=1000, help="Most jobs to claim.")] = 1,
    lease_ms: Annotated[
        int | None, typer.Option(min=100, help="Duration of the leases. [that of the queue]")
    ] = None,
    wait_s: Annotated[
        float, typer.Option(min=0.0, help="How long to wait for the first job.")
    ] = 0.0,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Lease jobs to a worker.

    No other worker gets a job until it is acknowledged, returned or its lease expires. In a
    directory, leases end with the command unless the queue has durable leases.
    """
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        claimed = log.claim(topic, node, most, lease_ms=lease_ms, wait_s=wait_s)
    if as_json:
        output.json_line(claimed)
        return
    for job in claimed.jobs:
        output.line(_line(job))
    if not claimed.jobs:
        output.info(f"{topic} has no job that is ready")


def ack(
    topic: Topic,
    seqs: Seqs,
    node: Node,
    lease: LeaseIds = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Acknowledge jobs: they are done and are deleted."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        settled = log.ack(topic, node, seqs, lease or ())
    _print_result("acknowledged", settled, as_json=as_json)


def nack(
    topic: Topic,
    seqs: Seqs,
    node: Node,
    lease: LeaseIds = None,
    delay_ms: Annotated[
        int | None,
        typer.Option(min=0, help="Delay before the next delivery. [the queue's retry rule]"),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Return jobs to the queue for another delivery, at once or after a delay."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        settled = log.nack(topic, node, seqs, lease or (), delay_ms=delay_ms)
    _print_result("returned", settled, as_json=as_json)


def extend(
    topic: Topic,
    seqs: Seqs,
    node: Node,
    lease_ms: Annotated[int, typer.Option(min=100, help="New duration of the leases, from now.")],
    lease: LeaseIds = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Extend the leases of jobs."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        settled = log.extend(topic, node, seqs, lease or (), lease_ms=lease_ms)
    _print_result("extended", settled, as_json=as_json)


def redrive(
    topic: Topic,
    to: Annotated[
        str | None, typer.Option(help="Destination queue. [the queue each came from]")
    ] = None,
    seq: Annotated[
        list[int] | None, typer.Option(min=1, help="Only this dead letter. May be repeated.")
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="Only dead letters with this tag; a trailing * matches a prefix."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Most dead letters to move per second.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print what would be moved; move nothing.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Move dead letters back to their queues: all, some, or one.

    `penstock read` shows them without moving them.
    """
    step_size = 100 if rate is None else max(1, min(100, int(rate)))
    moved, after = 0, 0
    failed: dict[int, str] = {}
    with (
        target.existing(target.Target(data_dir, url, token_file)) as log,
        output.progress("Redriving") as step,
    ):
        last = log.topic(topic).head_seq
        while True:
            found = log.redrive(
                topic, to=to, seqs=seq or (), tag=tag, after=after, limit=step_size, dry_run=dry_run
            )
            moved += found.moved
            failed |= found.failed
            after = found.next_seq
            step(min(after, last), last)
            if found.is_done or after >= last:
                break
            if rate is not None and not dry_run:
                target.pause(found.moved / rate)
    if as_json:
        output.json_line({"topic": topic, "moved": moved, "failed": failed, "dry_run": dry_run})
        return
    word = "would move" if dry_run else "moved"
    output.line(f"{word} {output.many(moved, 'dead letter')} of {topic}")
    for number, why in list(failed.items())[:20]:
        output.info(f"not moved: {number}: {why}")
    if len(failed) > 20:
        output.info(f"… and {len(failed) - 20} more were not moved")


def _line(job: Job) -> str:
    data = msgspec.json.encode(job.data).decode()
    again = "" if job.deliveries == 1 else f"  delivery {job.deliveries}"
    return f"{job.seq:>8}  {job.lease_id}  {output.moment(job.deadline)}{again}  {data}"


def _print_result(word: str, settled: Settled, *, as_json: bool) -> None:
    if as_json:
        output.json_line(settled)
        return
    output.line(f"{word}: {output.many(settled.done, 'job')} of {settled.topic}")
    if settled.skipped:
        listed = ", ".join(map(str, settled.skipped))
        output.info(f"skipped, because this worker does not hold their leases: {listed}")
