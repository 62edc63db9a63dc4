"""`penstock create`: create a topic, or replace the configuration of an existing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJson, DataDir, TokenFile, Topic, Url
from penstock.engine.engine import Log
from penstock.errors import TopicNotFound
from penstock.types import Durability, QueueRules, TopicConfig

if TYPE_CHECKING:
    from penstock.client.client import Client

_LIMITS = "Limits (0 switches one off)"
_QUEUES = "Queues"
_OTHER = "Other settings"


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=TOPICS)(create)


def create(
    topic: Topic,
    type: Annotated[Literal["log", "queue"] | None, typer.Option(help="Type of the topic.")] = None,
    durability: Annotated[
        Durability | None, typer.Option(help="Durability class: when an append is acknowledged.")
    ] = None,
    durable: Annotated[
        bool | None, typer.Option(help="Same as class fsync, or disk.", show_default=False)
    ] = None,
    cap_records: Annotated[
        int | None, typer.Option(min=0, help="Number of records to keep.", rich_help_panel=_LIMITS)
    ] = None,
    cap_bytes: Annotated[
        int | None, typer.Option(min=0, help="Bytes to keep.", rich_help_panel=_LIMITS)
    ] = None,
    ttl_ms: Annotated[
        int | None,
        typer.Option(min=0, help="Age at which records expire.", rich_help_panel=_LIMITS),
    ] = None,
    discard: Annotated[
        Literal["old", "reject"] | None,
        typer.Option(help="At a limit: drop the oldest, or refuse.", rich_help_panel=_LIMITS),
    ] = None,
    lease_ms: Annotated[
        int | None, typer.Option(min=0, help="Duration of a lease.", rich_help_panel=_QUEUES)
    ] = None,
    claim_jitter_ms: Annotated[
        int | None,
        typer.Option(min=0, help="Window in which claims share jobs.", rich_help_panel=_QUEUES),
    ] = None,
    max_deliveries: Annotated[
        int | None,
        typer.Option(min=0, help="Deliveries before a dead letter.", rich_help_panel=_QUEUES),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Topic for dead letters.", rich_help_panel=_QUEUES),
    ] = None,
    leases_durable: Annotated[
        bool | None,
        typer.Option(
            help="Keep leases after a crash.", show_default=False, rich_help_panel=_QUEUES
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="tag",
            help="Deliver one job per tag at a time, in order.",
            rich_help_panel=_QUEUES,
        ),
    ] = None,
    retry_base_ms: Annotated[
        int | None,
        typer.Option(
            min=0, help="First retry delay; it doubles each time.", rich_help_panel=_QUEUES
        ),
    ] = None,
    retry_cap_ms: Annotated[
        int | None, typer.Option(min=0, help="Longest retry delay.", rich_help_panel=_QUEUES)
    ] = None,
    retry_jitter: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Random share of a retry delay.", rich_help_panel=_QUEUES
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(help="Fixed priority.", rich_help_panel=_OTHER)
    ] = None,
    auto_priority: Annotated[
        bool | None,
        typer.Option(
            help="Derive the priority from reads.", show_default=False, rich_help_panel=_OTHER
        ),
    ] = None,
    auto_create: Annotated[
        bool | None,
        typer.Option(
            help="Let appends create the topic.", show_default=False, rich_help_panel=_OTHER
        ),
    ] = None,
    idempotency_window_ms: Annotated[
        int | None,
        typer.Option(min=0, help="How long keys are kept.", rich_help_panel=_OTHER),
    ] = None,
    dedupe_node: Annotated[
        bool | None,
        typer.Option(
            help="Let readers leave out a node's records.",
            show_default=False,
            rich_help_panel=_OTHER,
        ),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Create a topic, or replace the whole configuration of an existing one.

    A setting without an option gets its default value, also in an existing topic.
    """
    named = dict(locals())
    given = {
        field: named[field]
        for field in TopicConfig.__struct_fields__
        if named.get(field) is not None
    }
    rules = {
        field: named[field]
        for field in QueueRules.__struct_fields__
        if named.get(field) is not None
    }
    if rules:
        given["queue"] = rules
    with target.existing_or_new(target.Target(data_dir, url, token_file)) as log:
        existed = _exists(log, topic)
        info = log.create(topic, **given)
    if as_json:
        output.json_line({"existed": existed, **msgspec.to_builtins(info)})
        return
    output.line(f"{'configured' if existed else 'created'} {topic} ({_summary(info.config)})")


def _exists(log: Log | Client, topic: str) -> bool:
    try:
        log.topic(topic)
    except TopicNotFound:
        return False
    return True


def _summary(config: TopicConfig) -> str:
    """The class and every setting that differs from its default."""
    default = TopicConfig(durability=config.durability, durable=config.durable)
    changed = [
        f"{field} {_word(getattr(config, field))}"
        for field in TopicConfig.__struct_fields__
        if getattr(config, field) != getattr(default, field)
    ]
    return ", ".join([config.durability, *changed])


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
