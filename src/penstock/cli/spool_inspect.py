"""`penstock spool inspect`: one slot in full."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import AsJson
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.sender import slot_inspection
from penstock.sender.slot_inspection import SlotView
from penstock.storage.fs import OsFilesystem
from penstock.wire.sender_protocol import contents_of


def register(app: typer.Typer) -> None:
    app.command()(inspect)


def inspect(
    slot: SlotDir,
    frames: Annotated[
        bool, typer.Option("--frames", help="Also print one line per frame.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one slot in full: waiting, refused and damaged frames. Changes nothing.

    Exits with 3 if the slot is damaged.
    """
    fs, path = OsFilesystem(), slot_path(slot)
    survey = slot_inspection.survey(fs, path)
    found = slot_inspection.inspect(fs, path, survey)
    listed = []
    if frames:
        for fsn, payload in slot_inspection.frames(fs, path, survey):
            topic, rows = contents_of(payload or b"")
            listed.append({"fsn": fsn, "topic": topic, "rows": rows, "bytes": len(payload or b"")})
    held = slot_inspection.read_only_slot(fs, path)
    letters, quarantine = held.dead_letters(), held.quarantined()
    if as_json:
        output.json_line(
            {
                "slot": found,
                "frames": listed,
                "dead_letters": letters,
                "lost": survey.losses,
                "quarantine": quarantine,
            }
        )
    else:
        output.facts(_facts(found))
        _print_frames(listed)
        _print_rest(letters, survey.losses, quarantine)
    output.flush()
    if found.is_later_format:
        raise typer.Exit(ExitCode.STORAGE)
    if found.problem or found.frames_lost:
        raise typer.Exit(ExitCode.DAMAGE)


def _facts(found: SlotView) -> list[tuple[str, str]]:
    pid = found.holder_pid
    failed = found.failed or "no"
    if found.failed and found.failed == found.problem:
        failed = "yes, for this problem"
    return [
        ("slot", found.path),
        ("open in", "no process" if pid is None else f"pid {pid}" if pid else "a process"),
        ("waiting", output.many(found.frames, "frame")),
        ("lost to damage", output.many(found.frames_lost, "frame")),
        ("acknowledged", f"up to frame {found.acked_fsn}" if found.acked_fsn >= 0 else "none"),
        ("newest", f"frame {found.published_fsn}" if found.published_fsn >= 0 else "none"),
        ("oldest since", output.moment(found.oldest_ms) if found.oldest_ms else "-"),
        ("segments", f"{found.segments} with {output.size(found.bytes)}"),
        ("dead letters", str(found.dead_letters)),
        ("quarantined", str(found.quarantined)),
        ("problem", one_line(found.problem or "none")),
        ("given up", one_line(failed)),
        ("last error", one_line(found.last_error or "none")),
    ]


def _print_frames(listed: list[dict[str, Any]]) -> None:
    if listed:
        output.line()
        cells = [[str(one[key]) for key in ("fsn", "topic", "rows", "bytes")] for one in listed]
        output.table(("frame", "topic", "rows", "bytes"), cells, right="frame rows bytes")


def _print_rest(
    letters: list[dict[str, Any]], losses: list[dict[str, Any]], quarantine: list[dict[str, Any]]
) -> None:
    if letters or losses or quarantine:
        output.line()
    for one in letters:
        why = one_line(f"{one['category']}: {one['message']}")
        output.line(f"dead letter: frame {one['fsn']}, {why}")
    for one in losses:
        output.line(f"LOST: {_place(one)}")
    for one in quarantine:
        output.line(f"quarantined: {_place(one)}")


def _place(one: dict[str, Any]) -> str:
    """The position of damaged bytes, and the frames that are lost with them."""
    text = str(one.get("file", "?"))
    if "offset" in one:
        text += f", {output.many(int(one.get('length', 0)), 'byte')} at byte {one['offset']}"
    first, last = one.get("first_fsn"), one.get("last_fsn")
    if first is not None and last is not None and last >= first:
        text += f", frame {first}" if first == last else f", frames {first} to {last}"
    return one_line(f"{text}: {one.get('reason', 'unknown reason')}")
