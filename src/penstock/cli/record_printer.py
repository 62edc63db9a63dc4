"""Records and gaps as lines of text or JSON. Payloads are copied, never re-encoded."""

from __future__ import annotations

import msgspec

from penstock.cli import output
from penstock.cli.control_characters import one_line
from penstock.types import Gap


class _Wire(msgspec.Struct):
    """A record as the log projects it."""

    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    tag: str | None = msgspec.field(name="$tag", default=None)
    node: str | None = msgspec.field(name="$node", default=None)
    meta: msgspec.Raw = msgspec.Raw(b"null")
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    """The same as it is printed."""

    seq: int
    ts: int
    tag: str | None
    node: str | None
    meta: msgspec.Raw
    data: msgspec.Raw


_records = msgspec.json.Decoder(list[_Wire]).decode


class RecordPrinter:
    """Prints pages in order. Columns of the text form only grow wider."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._seq_width = self._tag_width = self._node_width = 1

    def gap(self, gap: Gap) -> None:
        if self._as_json:
            output.json_line({"gap": gap})
            return
        text = f"-- gap {gap.first}..{gap.last} ({gap.reason}) --"
        output.line(output.paint(text, "yellow"))

    def records(self, array: bytes) -> None:
        """A JSON array of records, as `Log.read_json` gives it."""
        records = _records(array)
        lines = [_as_json(record) for record in records] if self._as_json else self._text(records)
        if lines:
            output.write("\n".join(lines) + "\n")

    def _text(self, records: list[_Wire]) -> list[str]:
        rows = [
            (
                str(record.seq),
                output.moment(record.ts),
                one_line(record.tag or "-"),
                one_line(record.node or "-"),
                _shown(record),
            )
            for record in records
        ]
        for seq, _, tag, node, _ in rows:
            self._seq_width = max(self._seq_width, len(seq))
            self._tag_width = max(self._tag_width, len(tag))
            self._node_width = max(self._node_width, len(node))
        return [
            f"{output.paint(seq.rjust(self._seq_width), 'bold')}  {output.paint(when, 'dim')}  "
            f"{output.paint(tag.ljust(self._tag_width), 'cyan')}  "
            f"{output.paint(node.ljust(self._node_width), 'dim')}  {text}"
            for seq, when, tag, node, text in rows
        ]


def _shown(record: _Wire) -> str:
    text = one_line(_compact(record.data).decode())
    if bytes(record.meta) == b"null":
        return text
    meta = one_line(_compact(record.meta).decode())
    return text + output.paint(f"  meta {meta}", "dim")


def _as_json(record: _Wire) -> str:
    meta, data = msgspec.Raw(_compact(record.meta)), msgspec.Raw(_compact(record.data))
    return output.json_text(_Line(record.seq, record.ts, record.tag, record.node, meta, data))


def _compact(raw: msgspec.Raw) -> bytes:
    """On one line. A caller's JSON may hold line breaks between its tokens."""
    text = bytes(raw)
    return msgspec.json.format(text, indent=-1) if b"\n" in text or b"\r" in text else text
