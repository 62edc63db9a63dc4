"""`penstock append`: records from arguments, a file or a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from penstock.cli import output, session
from penstock.cli.intake import Intake
from penstock.cli.options import DEFAULT_DIR, RECORDS, AsJson, DataDir, TokenFile, Topic, Url
from penstock.codec.texts import check_depth
from penstock.engine.engine import Log
from penstock.errors import Forbidden, InvalidArgument, TopicExists, TopicNotFound, UsageError
from penstock.types import Appended, Durability, Record

if TYPE_CHECKING:
    from penstock.client.client import Client

_check = msgspec.json.Decoder(msgspec.Raw).decode


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RECORDS)(append)


def append(
    topic: Topic,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JSON]...", show_default=False, help="Records, as JSON."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read JSON lines; - is stdin."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="A tag for every record.")] = None,
    node: Annotated[str | None, typer.Option(help="Who writes.")] = None,
    meta: Annotated[str | None, typer.Option(metavar="JSON", help="Meta of every record.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: the same input again is not appended twice."),
    ] = None,
    durability: Annotated[
        Durability | None,
        typer.Option(help="The class the topic must have; a new topic gets it."),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Append records to a topic, which is made when it is missing.

    Without JSON arguments, JSON lines are read from stdin or from --file, and appended in
    batches of 1,000. Each batch is taken whole or not at all.
    """
    if data and file is not None:
        raise InvalidArgument("give JSON arguments or --file, not both")
    meta_text = None if meta is None else _json("--meta", meta)
    texts = [_json(f"argument {number}", text) for number, text in enumerate(data or (), 1)]
    intake = None if texts else Intake(file, linger=key is None)
    with session.existing_or_new(session.Where(data_dir, url, token_file)) as log:
        if durability is not None:
            _require_class(log, topic, durability)
        work = _Work(log, topic, tag, node, meta_text, key)
        if intake is None:
            work.append(texts)
        else:
            _drain(intake, work)
        work.tell(as_json=as_json)


class _Work:
    """The batches of one command and what became of them."""

    def __init__(
        self,
        log: Log | Client,
        topic: str,
        tag: str | None,
        node: str | None,
        meta: bytes | None,
        key: str | None,
    ) -> None:
        self.count = 0
        self._log = log
        self._topic = topic
        self._tag = tag
        self._node = node
        self._meta = meta
        self._key = key
        self._answers: list[Appended] = []

    def append(self, batch: list[bytes]) -> None:
        number = len(self._answers) + 1
        key = self._key if self._key is None or number == 1 else f"{self._key}/{number}"
        records: list[bytes] | list[Record] = batch
        if self._meta is not None:
            records = [Record(data=text, meta=self._meta) for text in batch]
        answer = self._log.append(
            self._topic, records, tag=self._tag, node=self._node, idempotency_key=key
        )
        self._answers.append(answer)
        self.count += answer.count

    def tell(self, *, as_json: bool) -> None:
        if not self._answers:
            if as_json:
                output.json_line({"topic": self._topic, "count": 0, "batches": 0})
            else:
                output.line(f"appended nothing to {self._topic}: the input is empty")
            return
        first, last = self._answers[0], self._answers[-1]
        seen = sum(answer.count for answer in self._answers if answer.deduped)
        class_ = self._class()
        if as_json:
            output.json_line(
                {
                    "topic": self._topic,
                    "first_seq": first.first_seq,
                    "last_seq": last.last_seq,
                    "count": self.count,
                    "deduped": seen,
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
            f"seq {_span(first.first_seq, last.last_seq)} ({class_ or 'class unknown'}"
            + (", new topic" if first.created else "")
            + (f"; {seen:,} were there already" if seen else "")
            + ")"
        )

    def _class(self) -> Durability | None:
        """None when the server's key may write and not read."""
        try:
            return self._log.topic(self._topic).config.durability
        except Forbidden:
            return None


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _drain(intake: Intake, work: _Work) -> None:
    """Append all of the input. A complaint tells what came before it."""
    with output.progress(f"Appending {Path(intake.name).name}", in_bytes=True) as step:
        try:
            for batch in intake.batches():
                work.append(batch)
                step(intake.done_bytes, intake.total_bytes)
        except UsageError as error:
            if work.count:
                told = output.many(work.count, "record")
                error.args = (f"{error}; {told} before this batch are appended",)
            raise


def _json(what: str, text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    check_depth([raw], what)
    try:
        _check(raw)
    except msgspec.DecodeError as error:
        hint = "" if text[:1] in '{["' else f"; text is written '\"{text}\"'"
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
            f"topic {topic!r} is {held}, not {wanted}; `penstock create` changes its class"
        )
