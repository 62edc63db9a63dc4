"""`penstock spool export`: the rows of a slot as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.exit_codes import ExitCode
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.errors import InvalidArgument
from penstock.sender import slot_inspection
from penstock.storage.fs import OsFilesystem
from penstock.wire.spool_frame import BadFrame, decode_frame


def register(app: typer.Typer) -> None:
    app.command()(export)


def export(
    slot: SlotDir,
    dead_letters: Annotated[
        bool,
        typer.Option(
            "--dead-letters", help="Export the refused frames instead of the waiting ones."
        ),
    ] = False,
) -> None:
    """Print the rows that wait in a slot, one JSON object per line. Changes nothing.

    Exits with 3 if frames could not be read; all others are printed.
    """
    path = slot_path(slot)
    fs = OsFilesystem()
    survey = None if dead_letters else slot_inspection.survey(fs, path)
    found = _letters(path) if survey is None else slot_inspection.frames(fs, path, survey)
    rows = frames = bad = 0
    for fsn, payload in found:
        count = _print(fsn, payload)
        rows += count
        frames += count > 0
        bad += not count
    output.flush()
    output.info(f"{output.many(rows, 'row')} of {output.many(frames, 'frame')}")
    if survey is not None and survey.problem:
        output.info(f"frames are missing: {survey.problem}")
    bad += 0 if survey is None else survey.frames_lost
    if bad:
        output.info(f"{output.many(bad, 'frame')} could not be read")
    if bad or (survey is not None and survey.problem):
        is_later = survey is not None and survey.is_later_format
        raise typer.Exit(ExitCode.STORAGE if is_later else ExitCode.DAMAGE)


def _print(fsn: int, payload: bytes | None) -> int:
    """Print the rows of a frame and return their number; 0 if the frame is unreadable."""
    if payload is None:
        return 0
    try:
        rows = list(slot_inspection.rows(fsn, payload))
    except InvalidArgument as error:
        output.info(f"frame {fsn} has no rows: {error}")
        return 0
    for row in rows:
        output.json_line(row)
    return len(rows)


def _letters(path: str) -> Iterator[tuple[int, bytes | None]]:
    held = slot_inspection.read_only_slot(OsFilesystem(), path)
    for letter in held.dead_letters():
        fsn = letter["fsn"]
        try:
            yield decode_frame(held.dead_letter(fsn, bytes.fromhex(letter["incarnation"])))
        except (BadFrame, OSError) as error:
            output.info(f"dead letter {fsn} is damaged: {error}")
            yield fsn, None
