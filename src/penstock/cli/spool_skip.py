"""`penstock spool skip`: skip frames that are refused, or frames that are missing."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, target
from penstock.cli.options import AsJson, Yes
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.errors import InvalidArgument, SlotInUse, SpoolHole
from penstock.sender import slot_inspection
from penstock.sender.skip_frames import skip_frames
from penstock.sender.skip_holes import skip_holes
from penstock.sender.slot import Slot
from penstock.sender.slot_inspection import Survey
from penstock.storage.fs import OsFilesystem
from penstock.wire.sender_protocol import contents_of

_TOPICS_MAX = 5


def register(app: typer.Typer) -> None:
    app.command()(skip)


def skip(
    slot: SlotDir,
    through: Annotated[
        int | None, typer.Option(metavar="FSN", help="Skip all frames up to this one.")
    ] = None,
    hole: Annotated[
        bool, typer.Option("--hole", help="Skip segments that are missing or damaged.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Skip the oldest frame, or a hole. Close the sender first.

    The frame moves to the slot's dead-letter folder, and the next frames can be sent. With --hole,
    a slot with missing or damaged segments opens again without their frames.
    """
    if hole and through is not None:
        raise InvalidArgument("--through and --hole exclude each other: use one of them")
    fs, path = OsFilesystem(), slot_path(slot)
    pid = slot_inspection.holder(fs, path)
    if pid is not None:
        raise SlotInUse(path, pid=pid or None)
    survey = slot_inspection.survey(fs, path)
    if survey.error is not None and (survey.is_later_format or not hole):
        raise survey.error
    skipped, done = [], []
    if hole:
        done = _skip_hole(survey, yes=yes)
    else:
        skipped = _skip_frames(survey, through, yes=yes)
        done = [f"frame {fsn} is in the dead-letter folder" for fsn in skipped]
    held = slot_inspection.read_only_slot(fs, path)
    if (hole or skipped) and held.failed() is not None:
        held.clear_failed()
        done.append("drainers may try the slot again")
    if as_json:
        output.json_line({"slot": path, "skipped": skipped, "done": done})
        return
    for line in done or ["no frames are missing" if hole else "no frames wait in this slot"]:
        output.line(line)


def _skip_hole(survey: Survey, *, yes: bool) -> list[str]:
    if survey.error is None:
        return []
    output.info(f"{survey.error.path}: {survey.error.reason}")
    target.confirm(f"skip these frames in {survey.path}", yes=yes)
    held = Slot.open(OsFilesystem(), survey.path)
    try:
        done = skip_holes(held)
    finally:
        held.release()
    after = slot_inspection.survey(OsFilesystem(), survey.path)
    if after.problem is not None:
        for line in done:
            output.info(line)
        raise SpoolHole(survey.path, reason=f"still cannot be opened: {after.problem}")
    if after.frames_lost:
        done.append(f"{output.many(after.frames_lost, 'frame')} lost to damage")
    return done


def _skip_frames(survey: Survey, through: int | None, *, yes: bool) -> list[int]:
    if through is not None and through > survey.published:
        raise InvalidArgument(
            f"invalid --through {through}: the last frame of the slot is {survey.published}"
        )
    if through is not None and through <= survey.acked:
        done = f"all up to {survey.acked} are" if survey.acked >= 0 else "no frame is"
        raise InvalidArgument(
            f"invalid --through {through}: expected a frame that waits; {done} acknowledged or "
            "skipped"
        )
    if survey.acked >= survey.published:
        return []
    last = _first(survey) if through is None else through
    target.confirm(f"move {_described(survey, last)} to the dead-letter folder", yes=yes)
    sf_dir, _, sender_id = survey.path.rpartition("/")
    return skip_frames(OsFilesystem(), sf_dir, sender_id, last)


def _first(survey: Survey) -> int:
    """The oldest frame that waits. Frames before it may be lost."""
    waiting = (f.fsn for one in survey.facts for f in one.scan.frames if f.fsn > survey.acked)
    return next(waiting, survey.acked + 1)


def _described(survey: Survey, last: int) -> str:
    """The frames in words, for the question that the user confirms."""
    numbers, rows, topics = [], 0, dict[str, None]()
    for fsn, payload in slot_inspection.frames(OsFilesystem(), survey.path, survey):
        if fsn > last:
            break
        topic, count = contents_of(payload or b"")
        numbers.append(fsn)
        rows += count
        topics[topic or "of no known topic"] = None
    named = ", ".join(list(topics)[:_TOPICS_MAX]) + (", …" if len(topics) > _TOPICS_MAX else "")
    what = f"{output.many(rows, 'row')} for {named}"
    if len(numbers) == 1:
        return f"frame {numbers[0]} ({what})"
    span = f" {numbers[0]} to {numbers[-1]}" if numbers else ""
    return f"{output.many(len(numbers), 'frame')}{span} ({what})"
