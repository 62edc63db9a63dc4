"""`penstock spool`: the slots of senders, looked at, emptied and mended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.options import MORE, AsJson, AsJsonLines, Yes
from penstock.errors import InvalidArgument, Overloaded, SenderHalted
from penstock.sender import profile, view
from penstock.sender.aside import skip_frames
from penstock.sender.sender import Sender
from penstock.sender.skip import skip_holes
from penstock.sender.slot import Slot
from penstock.sender.view import SlotView
from penstock.storage.fs import OsFilesystem
from penstock.wire.sending import contents_of
from penstock.wire.spool_frame import BadFrame, decode_frame

_HEADS = ("slot", "frames", "bytes", "acked", "newest", "oldest", "dead", "state")

Folder = Annotated[
    Path, typer.Argument(metavar="SF_DIR", show_default=False, help="The folder of the slots.")
]
SlotDir = Annotated[
    Path, typer.Argument(metavar="SLOT", show_default=False, help="SF_DIR/SENDER_ID.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Spools of senders.", no_args_is_help=True)
    group.command(name="list")(list_)
    group.command()(inspect)
    group.command()(export)
    group.command()(skip)
    group.command()(drain)
    app.add_typer(group, name="spool", rich_help_panel=MORE)


def list_(folder: Folder, as_json: AsJsonLines = False) -> None:
    """List the slots of a folder: what waits in them, and who has them open."""
    found = [view.look(OsFilesystem(), path) for path in _slots(folder)]
    if as_json:
        for one in found:
            output.json_line(one)
    elif found:
        output.table(_HEADS, [_row(one) for one in found], right="frames bytes acked newest dead")
    else:
        output.note("no slots")


def inspect(
    slot: SlotDir,
    frames: Annotated[bool, typer.Option("--frames", help="One line a frame as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """One slot in full. Nothing is changed."""
    fs, path = OsFilesystem(), _path(slot)
    found = view.look(fs, path)
    listed = []
    if frames:
        for fsn, payload in view.frames(fs, path):
            topic, rows = contents_of(payload)
            listed.append({"fsn": fsn, "topic": topic, "rows": rows, "bytes": len(payload)})
    letters = view.onlooker(fs, path).dead_letters()
    if as_json:
        output.json_line({"slot": found, "frames": listed, "dead_letters": letters})
        return
    output.facts(
        (
            ("slot", found.path),
            ("open in", "no process" if found.holder_pid is None else f"pid {found.holder_pid}"),
            ("waiting", output.many(found.frames, "frame")),
            ("lost to damage", output.many(found.frames_lost, "frame")),
            ("acknowledged", f"up to frame {found.acked_fsn}" if found.acked_fsn >= 0 else "none"),
            ("newest", f"frame {found.published_fsn}" if found.published_fsn >= 0 else "none"),
            ("oldest since", output.moment(found.oldest_ms) if found.oldest_ms else "-"),
            ("segments", f"{found.segments} with {output.size(found.bytes)}"),
            ("dead letters", str(found.dead_letters)),
            ("quarantined", str(found.quarantined)),
            ("given up", found.failed or "no"),
            ("last error", found.last_error or "none"),
            ("problem", found.problem or "none"),
        )
    )
    if listed:
        output.line()
        cells = [[str(one[key]) for key in ("fsn", "topic", "rows", "bytes")] for one in listed]
        output.table(("frame", "topic", "rows", "bytes"), cells, right="frame rows bytes")
    for letter in letters:
        output.line(
            f"dead letter: frame {letter['fsn']}, {letter['category']}: "
            f"{output.one_line(str(letter['message']))}"
        )


def export(
    slot: SlotDir,
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="The refused frames instead of the waiting.")
    ] = False,
) -> None:
    """Print the rows that wait in a slot, one JSON object a line. The slot stays as it is."""
    fs, path = OsFilesystem(), _path(slot)
    held = view.onlooker(fs, path)
    found = list(view.frames(fs, path)) if not dead_letters else []
    if dead_letters:
        for letter in held.dead_letters():
            frame = held.dead_letter(letter["fsn"], bytes.fromhex(letter["incarnation"]))
            try:
                found.append(decode_frame(frame))
            except BadFrame as error:
                output.note(f"dead letter {letter['fsn']} is damaged: {error}")
    count = 0
    for fsn, payload in found:
        try:
            for row in view.rows(fsn, payload):
                output.json_line(row)
                count += 1
        except InvalidArgument as error:
            output.note(f"frame {fsn} holds no rows: {error}")
    output.note(f"{output.many(count, 'row')} of {output.many(len(found), 'frame')}")


def skip(
    slot: SlotDir,
    through: Annotated[
        int | None, typer.Option(metavar="FSN", help="All up to this one, not only the oldest.")
    ] = None,
    hole: Annotated[
        bool, typer.Option("--hole", help="Go on without segments that are missing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put the oldest frame aside, into the slot's dead-letter folder, so that those behind it go
    on. With --hole, let a slot open again that misses segments. The slot must not be in use."""
    path = _path(slot)
    what = "go on without the missing segments" if hole else "put frames aside"
    if not yes and not typer.confirm(f"{path}: {what}?", err=True):
        raise typer.Abort
    fs = OsFilesystem()
    if hole:
        held = Slot.open(fs, path)
        try:
            done = skip_holes(held)
        finally:
            held.release()
        skipped: list[int] = []
    else:
        sf_dir, _, sender_id = path.rpartition("/")
        skipped = skip_frames(fs, sf_dir, sender_id, through)
        done = [f"frame {fsn} is in the dead-letter folder" for fsn in skipped]
    note = view.onlooker(fs, path)
    if note.failed() is not None:
        note.clear_failed()
        done.append("drainers may try the slot again")
    if as_json:
        output.json_line({"slot": path, "skipped": skipped, "done": done})
    else:
        for line in done or ["nothing was to be done"]:
            output.line(line)


def drain(
    slot: SlotDir,
    to: Annotated[
        str, typer.Option(metavar="CONNECT", help="Where to: a connect string, ws::addr=host:4000;")
    ],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after so long.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Send what waits in a slot whose sender is gone, then leave it empty."""
    path = _path(slot)
    sf_dir, _, sender_id = path.rpartition("/")
    given = profile.parse(to)
    if given.sf_dir is not None or given.sender_id != "default":
        raise InvalidArgument("the slot says sf_dir and sender_id; leave them out of --to")
    conf = f"{to.rstrip(';')};sf_dir={sf_dir.replace(';', ';;')};sender_id={sender_id};"
    sender = Sender(conf)
    try:
        waiting = sender.published_fsn - sender.acked_fsn
        is_done = sender.drain(timeout)
        status = sender.status()
    except SenderHalted as error:
        raise InvalidArgument(str(error)) from None
    finally:
        sender.close()
    left = status.published_fsn - status.acked_fsn
    sent = waiting - left
    if as_json:
        output.json_line({"slot": path, "sent": sent, "left": left})
    else:
        output.line(f"{output.many(sent, 'frame')} sent, {left} left")
    if not is_done:
        raise Overloaded(f"not drained in {timeout:g} s", retry_after_ms=1000)


def _slots(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise InvalidArgument(f"{folder} is no folder")
    return [str(path.resolve()) for path in sorted(folder.iterdir()) if (path / ".lock").exists()]


def _path(slot: Path) -> str:
    if not slot.is_dir():
        raise InvalidArgument(f"{slot} is no slot: give SF_DIR/SENDER_ID")
    return str(slot.resolve())


def _row(one: SlotView) -> list[str]:
    state = "idle"
    if one.problem:
        state = f"broken: {one.problem}"
    elif one.failed:
        state = f"given up: {one.failed}"
    elif one.holder_pid is not None:
        state = f"open in pid {one.holder_pid}"
    elif one.frames:
        state = "nobody sends it"
    oldest = output.moment(one.oldest_ms) if one.oldest_ms else "-"
    numbers = f"{one.frames:,}", output.size(one.bytes), str(one.acked_fsn), str(one.published_fsn)
    return [one.sender_id, *numbers, oldest, str(one.dead_letters), output.one_line(state)]
