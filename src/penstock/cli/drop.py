"""`penstock drop`: remove a topic with everything in it."""

from __future__ import annotations

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, TOPICS, AsJson, DataDir, TokenFile, Topic, Url, Yes


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=TOPICS)(drop)


def drop(
    topic: Topic,
    yes: Yes = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Remove a topic with everything in it."""
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        info = log.topic(topic)
        what = f"topic {topic} with {output.many(info.count, 'record')}"
        target.confirm(f"drop {what}", yes=yes)
        log.drop(topic)
    if as_json:
        output.json_line({"topic": topic, "dropped": True, "count": info.count})
        return
    output.line(f"dropped {what}")
