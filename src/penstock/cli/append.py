"""`penstock append`: records from arguments, a file or a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from penstock.append_options import AppendKeywords
from penstock.cli import output, target
from penstock.cli.append_batches import JsonLines
from penstock.cli.append_flags import with_append_flags
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url
from penstock.codec.json_text import check_depth
from penstock.engine.engine import Log
from penstock.errors import Forbidden, InvalidArgument, TopicExists, TopicNotFound, UsageError
from penstock.types import Appended, Durability, Record

if TYPE_CHECKING:
    from penstock.client.client import Client

_check = msgspec.json.Decoder(msgspec.Raw).decode


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(append)


@with_append_flags()
def append(
    topic: Topic,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="JSON", show_default=False, help="Records as JSON."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read JSON lines from this file; - is stdin."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Tag of every record.")] = None,
    node: Annotated[str | None, typer.Option(help="Name of the writer.")] = None,
    meta: Annotated[
        str | None, typer.Option(metavar="JSON", help="Metadata of every record.")
    ] = None,
    durability: Annotated[
        Durability | None,
        typer.Option(help="Required class of the topic; a new topic gets this class."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    *,
    options: AppendKeywords,
) -> None:
    """Append records to a topic. A missing topic is created.

    Without JSON arguments the command reads JSON lines from stdin or from --file and appends them
    in batches of 1,000. A batch is appended as a whole or not at all.
    """
    if data and file is not None:
        raise InvalidArgument("JSON arguments and --file exclude each other: use one of them")
    meta_text = None if meta is None else _json("--meta", meta)
    texts = [_json(f"argument {number}", text) for number, text in enumerate(data or (), 1)]
    lines = None if texts else JsonLines(file, linger="idempotency_key" not in options)
    with target.existing_or_new(target.Target(data_dir, url, token_file)) as log:
        if durability is not None:
            _require_class(log, topic, durability)
        batches = _Batches(log, topic, tag, node, meta_text, options)
        if lines is None:
            batches.append(texts)
        else:
            _append_lines(lines, batches)
        batches.print_summary(as_json=as_json)


class _Batches:
    """The batches of one command and their acknowledgements."""

    def __init__(
        self,
        log: Log | Client,
        topic: str,
        tag: str | None,
        node: str | None,
        meta: bytes | None,
        options: AppendKeywords,
    ) -> None:
        self.count = 0
        self._log = log
        self._topic = topic
        self._tag = tag
        self._node = node
        self._meta = meta
        self._options = options
        self._answers: list[Appended] = []

    def append(self, batch: list[bytes]) -> None:
        records: list[bytes] | list[Record] = batch
        if self._meta is not None:
            records = [Record(data=text, meta=self._meta) for text in batch]
        answer = self._log.append(
            self._topic, records, tag=self._tag, node=self._node, **self._next_options()
        )
        self._answers.append(answer)
        self.count += answer.count

    def _next_options(self) -> AppendKeywords:
        """The options of the next batch: each has a key of its own, and expects the last seq of the
        batch before it."""
        options = self._options.copy()
        if self._answers:
            if (key := options.get("idempotency_key")) is not None:
                options["idempotency_key"] = f"{key}/{len(self._answers) + 1}"
            if options.get("expected_seq") is not None:
                options["expected_seq"] = self._answers[-1].last_seq
        return options

    def print_summary(self, *, as_json: bool) -> None:
        if not self._answers:
            if as_json:
                output.json_line({"topic": self._topic, "count": 0, "batches": 0})
            else:
                output.line(f"appended 0 records to {self._topic}: the input is empty")
            return
        first, last = self._answers[0], self._answers[-1]
        seen = sum(answer.count for answer in self._answers if answer.deduped)
        delayed = [answer.delayed_id for answer in self._answers if answer.delayed_id]
        class_ = self._class()
        if as_json:
            output.json_line(
                {
                    "topic": self._topic,
                    "first_seq": first.first_seq,
                    "last_seq": last.last_seq,
                    "count": self.count,
                    "deduped": seen,
                    **({"delayed_ids": delayed} if delayed else {}),
                    "batches": len(self._answers),
                    "created": first.created,
                    "durability": class_,
                    "head_seq": last.head_seq,
                    "epoch": last.epoch,
                }
            )
            return
        output.line(
            f"appended {output.many(self.count - seen, 'record')} to {self._topic}, "
            + ("delayed" if delayed else f"seq {_span(first.first_seq, last.last_seq)}")
            + f" ({class_ or 'class unknown'}"
            + (", new topic" if first.created else "")
            + (f"; {seen:,} had been appended before" if seen else "")
            + ")"
        )

    def _class(self) -> Durability | None:
        """The topic's class; None if the API key may write but not read."""
        try:
            return self._log.topic(self._topic).config.durability
        except Forbidden:
            return None


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _append_lines(lines: JsonLines, batches: _Batches) -> None:
    """Append the whole input. An error says how many records were appended before it."""
    with output.progress(f"Appending {Path(lines.name).name}", in_bytes=True) as step:
        try:
            for batch in lines.batches():
                batches.append(batch)
                step(lines.done_bytes, lines.total_bytes)
        except UsageError as error:
            if batches.count:
                appended = output.many(batches.count, "record")
                error.args = (f"{error}; {appended} before this batch were appended",)
            raise


def _json(what: str, text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    check_depth([raw], what)
    try:
        _check(raw)
    except msgspec.DecodeError as error:
        hint = "" if text[:1] in '{["' else f"; a text needs quotes: '\"{text}\"'"
        raise InvalidArgument(f"{what} is not JSON: {error}{hint}") from None
    return raw


def _require_class(log: Log | Client, topic: str, wanted: Durability) -> None:
    try:
        held = log.topic(topic).config.durability
    except TopicNotFound:
        log.create(topic, durability=wanted)
        return
    if held != wanted:
        raise TopicExists(
            f"topic {topic!r} has class {held}, not {wanted}: `penstock create` changes the class"
        )
