"""`penstock wal read`: the frames of the WAL files, in replay order."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli import output, target, wal_traverse
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_DIR, AsJsonLines, DataDir
from penstock.cli.wal_traverse import BadPlace, FileScan
from penstock.codec.entry import decode_entry
from penstock.codec.frame import Frame, FrameType
from penstock.errors import InvalidArgument
from penstock.storage.fs import OsFilesystem
from penstock.types import TopicConfig


def register(app: typer.Typer) -> None:
    app.command("read")(wal_read)


def wal_read(
    from_offset: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE:]OFFSET",
            help="Start at this byte of this file. Without FILE: of the first file.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Print at most this many frames.")
    ] = None,
    data: Annotated[bool, typer.Option("--data", help="Also print the data of records.")] = False,
    as_json: AsJsonLines = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Print the frames of the WAL in replay order, read from its files.

    Takes no lock: the directory may be in use. Invalid bytes are shown at their position, and the
    frames after them too. Exits with 3 if the WAL is damaged.
    """
    start = _start(from_offset)
    root = target.root_of(data_dir)
    report_if_in_use(root)
    damaged = 0
    for scan, offset, found in itertools.islice(_everything(root, start), limit):
        if isinstance(found, BadPlace):
            damaged += found.is_damage
            output.line(bad_json(scan, found) if as_json else bad_text(scan, found))
        elif as_json:
            output.line(_frame_json(scan, offset, found, with_data=data))
        else:
            output.line(_frame_text(scan, offset, found, with_data=data))
    if damaged:
        output.flush()
        output.info(f"{output.many(damaged, 'damaged place')}: see `penstock fsck`")
        raise typer.Exit(ExitCode.DAMAGE)


def report_if_in_use(root: str) -> None:
    pid = target.holder_of(root)
    if pid is not None:
        holder = f"process {pid}" if pid else "another process"
        output.info(f"{root} is in use by {holder}: the log may change while it is read")


def _start(text: str | None) -> tuple[int | None, int]:
    """(file index or None for the first, offset)"""
    if text is None:
        return None, 0
    file, _, offset = text.rpartition(":")
    if not offset.isdecimal() or (file and not file.isdecimal()):
        raise InvalidArgument(f"invalid --from-offset {text!r}: expected OFFSET or FILE:OFFSET")
    return int(file) if file else None, int(offset)


def _everything(
    root: str, start: tuple[int | None, int]
) -> Iterator[tuple[FileScan, int, Frame | BadPlace]]:
    """Frames and invalid ranges from `start` on, in order."""
    index, offset = start
    for scan in wal_traverse.scan_files(OsFilesystem(), f"{root}/wal"):
        if index is None:
            index = scan.file.index
        if scan.file.index < index:
            continue
        first = offset if scan.file.index == index else 0
        waiting = sorted(scan.bad, key=lambda place: place.offset)
        for at, frame, _ in scan.frames():
            while waiting and waiting[0].offset <= at:
                if waiting[0].end > first:
                    yield scan, waiting[0].offset, waiting[0]
                del waiting[0]
            if at >= first:
                yield scan, at, frame
        for place in waiting:
            yield scan, place.offset, place


# As text.


def _frame_text(scan: FileScan, offset: int, frame: Frame, *, with_data: bool) -> str:
    place = output.paint(f"{scan.file.index}:{offset:<8}", "dim")
    name = output.paint(f"{wal_traverse.type_name(frame.type):15}", "cyan")
    when = output.paint(output.moment(frame.ts), "dim")
    return f"{place}  {when}  {name}  " + "  ".join(_details(frame, with_data=with_data))


def _details(frame: Frame, *, with_data: bool) -> Iterator[str]:
    if frame.topic_id:
        yield f"topic {frame.topic_id}"
    if frame.seq:
        yield f"seq {frame.seq}"
    if frame.node:
        yield f"node {one_line(_text(frame.node))}"
    if frame.tag and frame.type != FrameType.BATCH:
        yield f"tag {one_line(_text(frame.tag))}"
    if frame.type == FrameType.APPEND:
        yield output.size(len(frame.data))
        if with_data:
            yield one_line(_text(frame.data))
    else:
        yield one_line(output.json_text(_body(frame, is_brief=True)))


def bad_text(scan: FileScan, place: BadPlace) -> str:
    word = "damage" if place.is_damage else "torn tail"
    where = f"{place.offset}..{place.end} of {scan.file.path}"
    text = f"-- {word} in file {scan.file.index}, bytes {where}: {place.reason} --"
    return output.paint(text, "red bold" if place.is_damage else "yellow")


# As JSON.


def _frame_json(scan: FileScan, offset: int, frame: Frame, *, with_data: bool) -> str:
    shown: dict[str, Any] = {
        "file": scan.file.index,
        "offset": offset,
        "shard": scan.group,
        "type": wal_traverse.type_name(frame.type),
        "topic_id": frame.topic_id,
        "seq": frame.seq,
        "ts": frame.ts,
        "node": _text(frame.node) if frame.node else None,
        "tag": _text(frame.tag) if frame.tag else None,
        "node_bytes": len(frame.node),
        "tag_bytes": len(frame.tag),
        "data_bytes": len(frame.data),
    }
    if frame.type != FrameType.APPEND:
        shown["body"] = _body(frame)
    elif with_data:
        shown["data"] = _text(frame.data)
    return output.json_text(shown)


def bad_fields(scan: FileScan, place: BadPlace) -> dict[str, Any]:
    return {
        "path": scan.file.path,
        "file": scan.file.index,
        "offset": place.offset,
        "end": place.end,
        "reason": place.reason,
    }


def bad_json(scan: FileScan, place: BadPlace) -> str:
    return output.json_text({"damage" if place.is_damage else "torn": bad_fields(scan, place)})


def _body(frame: Frame, *, is_brief: bool = False) -> dict[str, Any]:
    """The fields of a control frame that are not in its header. The brief form omits settings that
    have their default value."""
    try:
        entry = decode_entry(frame)
    except ValueError as error:
        return {"unreadable": str(error)}
    if entry is None:
        return {"unknown": f"{len(frame.data)} bytes"}
    said = {"topic_id", "ts", "first_seq", *(["seq"] if frame.seq else [])}
    body = {
        field.name: _plain(getattr(entry, field.name))
        for field in dataclasses.fields(entry)
        if field.name not in said
    }
    if is_brief and "config" in body:
        default = _plain(TopicConfig())
        config = body["config"].items()
        body["config"] = {name: value for name, value in config if value != default.get(name)}
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: _plain(one) for name, one in fields.items() if one is not msgspec.UNSET}
    return value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
