"""`penstock spool skip`: go on past a frame that is refused, or past frames that are missing."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import output, session
from penstock.cli.options import AsJson, Yes
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.errors import InvalidArgument, SlotInUse, SpoolHole
from penstock.sender import view
from penstock.sender.aside import skip_frames
from penstock.sender.skip import skip_holes
from penstock.sender.slot import Slot
from penstock.sender.view import Survey
from penstock.storage.fs import OsFilesystem
from penstock.wire.sending import contents_of

_TOPICS_MAX = 5


def register(app: typer.Typer) -> None:
    app.command()(skip)


def skip(
    slot: SlotDir,
    through: Annotated[
        int | None, typer.Option(metavar="FSN", help="All up to this one, not only the oldest.")
    ] = None,
    hole: Annotated[
        bool, typer.Option("--hole", help="Go on without segments that are missing or damaged.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Go on past the oldest frame, or past a hole. Close the sender first.

    The frame goes into the slot's dead-letter folder, and those behind it go on. With --hole, a
    slot that misses segments, or has damaged ones, opens again without their frames.
    """
    if hole and through is not None:
        raise InvalidArgument("--through is for frames that are there: leave it out with --hole")
    fs, path = OsFilesystem(), slot_path(slot)
    pid = view.holder(fs, path)
    if pid is not None:
        raise SlotInUse(path, pid=pid or None)
    survey = view.survey(fs, path)
    if survey.error is not None and (survey.is_later_format or not hole):
        raise survey.error
    skipped, done = [], []
    if hole:
        done = _skip_hole(survey, yes=yes)
    else:
        skipped = _skip_frames(survey, through, yes=yes)
        done = [f"frame {fsn} is in the dead-letter folder" for fsn in skipped]
    note = view.onlooker(fs, path)
    if (hole or skipped) and note.failed() is not None:
        note.clear_failed()
        done.append("drainers may try the slot again")
    if as_json:
        output.json_line({"slot": path, "skipped": skipped, "done": done})
        return
    for line in done or ["nothing is missing" if hole else "nothing waits in this slot"]:
        output.line(line)


def _skip_hole(survey: Survey, *, yes: bool) -> list[str]:
    if survey.error is None:
        return []
    output.note(f"{survey.error.path}: {survey.error.reason}")
    session.confirm(f"go on without these frames in {survey.path}", yes=yes)
    held = Slot.open(OsFilesystem(), survey.path)
    try:
        done = skip_holes(held)
    finally:
        held.release()
    after = view.survey(OsFilesystem(), survey.path)
    if after.problem is not None:
        for line in done:
            output.note(line)
        raise SpoolHole(survey.path, reason=f"still cannot be opened: {after.problem}")
    if after.frames_lost:
        done.append(f"{output.many(after.frames_lost, 'frame')} lost to damage")
    return done


def _skip_frames(survey: Survey, through: int | None, *, yes: bool) -> list[int]:
    if through is not None and through > survey.published:
        raise InvalidArgument(f"--through {through}: the slot ends at frame {survey.published}")
    if through is not None and through <= survey.acked:
        done = f"up to frame {survey.acked} all are" if survey.acked >= 0 else "none is"
        raise InvalidArgument(f"--through {through}: {done} acknowledged or put aside")
    if survey.acked >= survey.published:
        return []
    last = _first(survey) if through is None else through
    session.confirm(f"put {_described(survey, last)} into the dead-letter folder", yes=yes)
    sf_dir, _, sender_id = survey.path.rpartition("/")
    return skip_frames(OsFilesystem(), sf_dir, sender_id, last)


def _first(survey: Survey) -> int:
    """The oldest frame that waits: those before it may be lost."""
    waiting = (f.fsn for one in survey.facts for f in one.scan.frames if f.fsn > survey.acked)
    return next(waiting, survey.acked + 1)


def _described(survey: Survey, last: int) -> str:
    """Which frames, in words: whoever is asked should know what goes."""
    numbers, rows, topics = [], 0, dict[str, None]()
    for fsn, payload in view.frames(OsFilesystem(), survey.path, survey):
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
