"""`penstock features push`: events from arguments, a file or a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output, target
from penstock.cli.append_batches import JsonLines
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir, TokenFile, Url
from penstock.errors import InvalidArgument, SchemaMismatch, UsageError
from penstock.feature_types import Pushed, PushSync

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.engine.engine import Log


def push(
    event: Annotated[
        str, typer.Argument(metavar="EVENT", show_default=False, help="Name of the event type.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="JSON", show_default=False, help="Events as JSON."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read JSON lines from this file; - is stdin."
        ),
    ] = None,
    is_synced: Annotated[
        bool, typer.Option("--sync", help="Return when the events are synced to the disk.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Push events of a type.

    Each is checked against its type; then they are appended to its topic. Without JSON arguments
    the command reads JSON lines from stdin or from --file and pushes them in batches of 1,000, each
    whole or not at all. Events whose id is known already are left out, if their type says so.
    """
    if data and file is not None:
        raise InvalidArgument("JSON arguments and --file exclude each other: use one of them")
    lines = None if data else JsonLines(file, linger=True)
    with target.existing(target.Target(data_dir, url, token_file)) as log:
        batches = _Pushes(log, event, "per_event" if is_synced else None)
        if lines is None:
            batches.push([text.encode("utf-8", "surrogateescape") for text in data or ()])
        else:
            with output.progress(f"Pushing {Path(lines.name).name}", in_bytes=True) as step:
                for batch in lines.batches():
                    batches.push(batch)
                    step(lines.done_bytes, lines.total_bytes)
        batches.print_summary(as_json=as_json)


class _Pushes:
    """The batches of one command and their acknowledgements."""

    def __init__(self, log: Log | Client, event: str, sync: PushSync | None) -> None:
        self._log = log
        self._event = event
        self._sync = sync
        self._given = 0
        self._answers: list[Pushed] = []

    def push(self, batch: list[bytes]) -> None:
        try:
            self._answers.append(self._log.features.push(self._event, batch, sync=self._sync))
        except UsageError as error:
            self._place(error)
            raise
        self._given += len(batch)

    def _place(self, error: UsageError) -> None:
        """Count events from the beginning of the input, and say what was pushed before."""
        text = str(error)
        if isinstance(error, SchemaMismatch) and error.index is not None:
            number = self._given + error.index + 1
            text = text.replace(
                f"(number {error.index + 1} of the push)", f"(number {number:,} of the input)"
            )
        if self._given:
            text += f"; {output.many(self._given, 'event')} before this batch were pushed"
        error.args = (text,)

    def print_summary(self, *, as_json: bool) -> None:
        count = sum(answer.count for answer in self._answers)
        known = sum(answer.deduped for answer in self._answers)
        new = [answer for answer in self._answers if answer.count]
        first, last = (new[0].first_seq, new[-1].last_seq) if new else (None, None)
        if as_json:
            found = {"event": self._event, "count": count, "deduped": known}
            output.json_line({**found, "first_seq": first, "last_seq": last})
            return
        where = ""
        if first is not None:
            seqs = str(first) if first == last else f"{first}..{last}"
            where = f", seq {seqs} of {new[0].topic}"
        more = f" ({known:,} known already)" if known else ""
        output.line(f"pushed {output.many(count, 'event')} to {self._event}{where}{more}")
