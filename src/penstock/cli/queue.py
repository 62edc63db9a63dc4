"""`penstock queue`: look at a queue, claim jobs of it, and settle them."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from penstock.cli import output, session
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url
from penstock.types import Job, Settled

Node = Annotated[str, typer.Option(help="Who works: the name that leases are given to.")]
Seqs = Annotated[list[int], typer.Argument(metavar="SEQ...", min=1, help="Jobs by their seqs.")]
LeaseIds = Annotated[
    list[str] | None,
    typer.Option("--lease", metavar="ID", help="The lease of each job, in the same order."),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Jobs: claim, settle, count.", no_args_is_help=True)
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
    """How many jobs are ready, in flight, put off, and dead-lettered so far."""
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        found = log.queue_counts(topic)
    if as_json:
        output.json_line({"topic": topic, **msgspec.structs.asdict(found)})
        return
    output.line(
        f"{topic}: {found.ready} ready, {found.in_flight} in flight, {found.delayed} put off, "
        f"{found.dead_lettered} dead-lettered"
    )


def put(
    topic: Topic,
    data: Annotated[
        list[str], typer.Argument(metavar="JSON...", show_default=False, help="Jobs, as JSON.")
    ],
    tag: Annotated[str | None, typer.Option(help="A tag for every job.")] = None,
    delay_ms: Annotated[
        int | None, typer.Option(min=0, help="Not before so long from now.")
    ] = None,
    deliver_at: Annotated[
        int | None, typer.Option(min=0, metavar="MS", help="Not before this, in ms since 1970.")
    ] = None,
    cron: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Again and again, as in '*/5 * * * *'.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Of --cron; else UTC.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Append jobs for now, for later, or to come again by a schedule."""
    records = [text.encode() for text in data]
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        added = log.append(
            topic,
            records,
            tag=tag,
            create=False,
            deliver_at=deliver_at,
            delay_ms=delay_ms,
            cron=cron,
            timezone=timezone,
        )
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
    """List the jobs that come by a schedule, and when each is due next.

    `penstock delete TOPIC --seq SEQ` ends one.
    """
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        found = log.schedules(topic)
        session.end_reading(log)
    if as_json:
        output.json_line({"topic": topic, "schedules": found})
    elif found:
        rows = [(str(one.seq), one.cron, one.timezone, output.moment(one.due)) for one in found]
        output.table(("seq", "cron", "timezone", "due"), rows, right="seq")
    else:
        output.note(f"no job of {topic} has a schedule")


def claim(
    topic: Topic,
    node: Node,
    most: Annotated[int, typer.Option("--max", min=1, max=1000, help="At most so many.")] = 1,
    lease_ms: Annotated[
        int | None, typer.Option(min=100, help="How long they are yours; else the queue's own.")
    ] = None,
    wait_s: Annotated[float, typer.Option(min=0.0, help="Wait so long for the first.")] = 0.0,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Lease jobs to a worker. Nobody else gets them until they are settled or the lease ends.

    On a directory leases end with the command unless the queue has durable leases.
    """
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        claimed = log.claim(topic, node, most, lease_ms=lease_ms, wait_s=wait_s)
    if as_json:
        output.json_line(claimed)
        return
    for job in claimed.jobs:
        output.line(_line(job))
    if not claimed.jobs:
        output.note(f"no job of {topic} is ready")


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
    """Acknowledge jobs: they are done, and deleted."""
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        settled = log.ack(topic, node, seqs, lease or ())
    _tell("acknowledged", settled, as_json=as_json)


def nack(
    topic: Topic,
    seqs: Seqs,
    node: Node,
    lease: LeaseIds = None,
    delay_ms: Annotated[
        int | None, typer.Option(min=0, help="Not before so long from now; else the queue's rule.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Give jobs back: somebody may try again, at once or later."""
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        settled = log.nack(topic, node, seqs, lease or (), delay_ms=delay_ms)
    _tell("given back", settled, as_json=as_json)


def extend(
    topic: Topic,
    seqs: Seqs,
    node: Node,
    lease_ms: Annotated[int, typer.Option(min=100, help="From now.")],
    lease: LeaseIds = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Keep jobs for longer."""
    with session.existing(session.Where(data_dir, url, token_file)) as log:
        settled = log.extend(topic, node, seqs, lease or (), lease_ms=lease_ms)
    _tell("extended", settled, as_json=as_json)


def redrive(
    topic: Topic,
    to: Annotated[
        str | None, typer.Option(help="To this queue; else to where each came from.")
    ] = None,
    seq: Annotated[
        list[int] | None, typer.Option(min=1, help="Only these; may be given more than once.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Only those with this tag; a trailing * is a prefix.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="At most so many in a second.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Say what would go, move nothing.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Move dead letters back to their queues: all, some, or one.

    To look at them without moving anything, `penstock read` them.
    """
    step_size = 100 if rate is None else max(1, min(100, int(rate)))
    moved, after = 0, 0
    failed: dict[int, str] = {}
    with (
        session.existing(session.Where(data_dir, url, token_file)) as log,
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
                session.pause(found.moved / rate)
    if as_json:
        output.json_line({"topic": topic, "moved": moved, "failed": failed, "dry_run": dry_run})
        return
    word = "would move" if dry_run else "moved"
    output.line(f"{word} {output.many(moved, 'dead letter')} of {topic}")
    for number, why in list(failed.items())[:20]:
        output.note(f"{number} stays: {why}")
    if len(failed) > 20:
        output.note(f"… and {len(failed) - 20} more stay")


def _line(job: Job) -> str:
    data = msgspec.json.encode(job.data).decode()
    again = "" if job.deliveries == 1 else f"  delivery {job.deliveries}"
    return f"{job.seq:>8}  {job.lease_id}  {output.moment(job.deadline)}{again}  {data}"


def _tell(word: str, settled: Settled, *, as_json: bool) -> None:
    if as_json:
        output.json_line(settled)
        return
    output.line(f"{word}: {output.many(settled.done, 'job')} of {settled.topic}")
    if settled.skipped:
        listed = ", ".join(map(str, settled.skipped))
        output.note(f"skipped, because the lease is not yours (any more): {listed}")
