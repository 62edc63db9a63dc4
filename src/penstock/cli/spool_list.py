"""`penstock spool list`: the slots of a folder, one per line."""

from __future__ import annotations

import shlex
import shutil

import typer

from penstock.cli import output
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import AsJsonLines
from penstock.cli.spool_slots import Folder, slot_paths
from penstock.clock import SystemClock
from penstock.errors import StorageError
from penstock.sender import slot_inspection
from penstock.sender.slot_inspection import SlotView
from penstock.storage.fs import OsFilesystem

_HEADS = (
    *("slot", "frames", "bytes", "acked", "newest", "oldest"),
    *("dead", "lost", "quarantined", "state"),
)
_NUMBERS = "frames bytes acked newest oldest dead lost quarantined"
_STATE_CHARS_MIN = 20  # of a state that is cut; the whole text is in `inspect` and in JSON


def register(app: typer.Typer) -> None:
    app.command(name="list")(list_)


def list_(folder: Folder, as_json: AsJsonLines = False) -> None:
    """List the slots of a folder: their waiting frames, and the process that has them open.

    Exits with 3 if a slot is damaged, and with 5 if a slot cannot be read.
    """
    paths = slot_paths(folder)
    rows, waiting, code = [], [], ExitCode.OK
    for path in paths:
        try:
            one = slot_inspection.inspect(OsFilesystem(), path)
        except (StorageError, OSError) as error:
            code = code or ExitCode.STORAGE
            rows.append(_unreadable(path, error, as_json=as_json))
            continue
        if as_json:
            output.json_line(one)
        code = _worse(code, one)
        rows.append(_row(one))
        if one.frames and one.holder_pid is None and not (one.problem or one.failed):
            waiting.append(path)
    if not as_json:
        _print(folder, rows, waiting)
    output.flush()
    if code:
        raise typer.Exit(code)


def _print(folder: object, rows: list[list[str]], waiting: list[str]) -> None:
    if not rows:
        output.info(f"no slots in {folder}")
        return
    room = _room(rows)
    cut = [[*row[:-1], _cut(row[-1], room)] for row in rows]
    output.table(_HEADS, cut, right=_NUMBERS)
    if waiting:
        output.flush()
        where = "one of them" if len(waiting) > 1 else "it"
        output.info(
            f"{output.many(len(waiting), 'slot')} without a sender; to drain {where}: penstock "
            f"spool drain {shlex.quote(waiting[0])} --to 'ws::addr=host:4000;'"
        )


def _worse(code: ExitCode, one: SlotView) -> ExitCode:
    if one.is_later_format:
        return code or ExitCode.STORAGE
    return ExitCode.DAMAGE if one.problem or one.frames_lost else code


def _unreadable(path: str, error: Exception, *, as_json: bool) -> list[str]:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    problem, name = f"unreadable: {why}", path.rpartition("/")[2]
    if as_json:
        output.json_line({"sender_id": name, "path": path, "problem": problem})
    return [name, *("-" for _ in _HEADS[2:]), problem]


def _row(one: SlotView) -> list[str]:
    return [
        one.sender_id,
        f"{one.frames:,}",
        output.size(one.bytes),
        _number(one.acked_fsn),
        _number(one.published_fsn),
        _age(SystemClock().now_ms() - one.oldest_ms) if one.oldest_ms else "-",
        str(one.dead_letters),
        f"{one.frames_lost:,}",
        str(one.quarantined),
        _state(one),
    ]


def _state(one: SlotView) -> str:
    state = "idle"
    if one.problem:
        state = f"broken: {_reason(one.problem)}"
    elif one.failed:
        state = f"given up: {_reason(one.failed)}"
    elif one.holder_pid is not None:
        state = f"open in pid {one.holder_pid}" if one.holder_pid else "open in a process"
    elif one.frames:
        state = "no sender"
    return state


def _reason(text: str) -> str:
    """The reason without its file name, which would fill the column."""
    return text.partition(": ")[2] if text.startswith("/") else text


def _age(ms: int) -> str:
    """An age in its largest suitable unit."""
    seconds = max(0, ms) // 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _number(fsn: int) -> str:
    return str(fsn) if fsn >= 0 else "none"


def _room(rows: list[list[str]]) -> int:
    """The width that the other columns leave for the state."""
    columns = list(zip(_HEADS, *rows, strict=True))[:-1]
    taken = sum(max(map(len, column)) + 2 for column in columns)
    return max(_STATE_CHARS_MIN, shutil.get_terminal_size((100, 24)).columns - taken)


def _cut(text: str, room: int) -> str:
    text = one_line(text)
    return text if len(text) <= room else text[: room - 1] + "…"
