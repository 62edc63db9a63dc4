"""`penstock spool redrive`: send dead letters again."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli import output
from penstock.cli.control_characters import one_line
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import AsJson, TokenFile
from penstock.cli.spool_sending import (
    Timeout,
    To,
    Trouble,
    checked_timeout,
    connect_options,
    sender_messages,
    trouble_of,
)
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.errors import InvalidArgument, SlotInUse
from penstock.sender import slot_inspection
from penstock.sender.connect_string import ConnectOptions
from penstock.sender.drain_job import DrainJob
from penstock.sender.settings import SEGMENT_BYTES, SpoolSettings
from penstock.sender.slot import REDRIVE_NAME, Slot
from penstock.storage.fs import OsFilesystem
from penstock.wire.spool_frame import BadFrame, decode_frame

_SLACK_BYTES: Final = 1024  # what a segment and a frame need besides the payload
_POLICIES: Final = ("server", "schema", "parse", "internal", "security", "write")


def register(app: typer.Typer) -> None:
    app.command()(redrive)


def redrive(
    slot: SlotDir,
    to: To,
    fsn: Annotated[
        int | None, typer.Option("--fsn", metavar="FSN", min=0, help="Only this dead letter.")
    ] = None,
    timeout: Timeout = 60,
    as_json: AsJson = False,
    token_file: TokenFile = None,
) -> None:
    """Send the dead letters of a slot again, as new frames. The slot may be in use.

    A dead letter is removed when the server acknowledges it and stays if the server refuses it
    again. An interruption between acknowledgement and removal can deliver a dead letter twice.
    Exit codes are those of drain.
    """
    checked_timeout(timeout)
    path = slot_path(slot)
    profile = connect_options(to, token_file)
    names = {f"on_{name}_error": "halt" for name in _POLICIES}  # so that it stops at a refusal
    profile = msgspec.structs.replace(profile, **names)
    held = slot_inspection.read_only_slot(OsFilesystem(), path)
    letters = [one for one in held.dead_letters() if fsn in (None, one["fsn"])]
    if fsn is not None and not letters:
        raise InvalidArgument(
            f"the slot has no dead letter {fsn}: `penstock spool inspect` lists them"
        )
    attempt = RedriveAttempt(held, profile, timeout)
    if letters:
        _run(attempt, letters)
    _print(path, attempt, len(letters), as_json=as_json)


class RedriveAttempt:
    """One pass over dead letters, with the result of each."""

    def __init__(self, held: Slot, profile: ConnectOptions, timeout: float) -> None:
        self.acknowledged: list[int] = []
        self.refused: list[int] = []
        self.damaged: list[int] = []
        self.trouble: Trouble | None = None
        self.held = held
        self._profile = profile
        self._timeout = timeout
        self._drain_job: DrainJob | None = None

    def close(self) -> None:
        drain_job, self._drain_job = self._drain_job, None
        if drain_job is not None:
            drain_job.close()

    def send(self, letter: dict[str, Any]) -> bool:
        """Send one and remove it once the server has it. Return whether to continue."""
        fsn, incarnation = letter["fsn"], bytes.fromhex(letter["incarnation"])
        try:
            _, payload = decode_frame(self.held.dead_letter(fsn, incarnation))
        except (BadFrame, FileNotFoundError) as error:
            output.info(f"dead letter {fsn} is damaged: {error}")
            self.damaged.append(fsn)
            return True
        drain_job = self._fitting(len(payload))
        drain_job.spool.append([payload])
        drain_job.delivery_loop.wake()
        if drain_job.run(self._timeout):
            self.held.remove_dead_letter(fsn, incarnation)
            self.acknowledged.append(fsn)
            return True
        self.close()  # its frames are not sent any more
        halted = drain_job.delivery_loop.halted
        if halted is None or halted.fsn < 0:
            self.trouble = trouble_of(drain_job, self._timeout)
            return False
        output.info(
            one_line(f"dead letter {fsn} was refused again: {halted.category}: ")
            + one_line(halted.message)
        )
        self.refused.append(fsn)
        return True

    def _fitting(self, size: int) -> DrainJob:
        """The current drain job if a frame of this size fits into its segments, else a new one."""
        if self._drain_job is not None and size > self._drain_job.spool.payload_bytes_max:
            self.close()
        if self._drain_job is None:
            segment_bytes = min(max(4 << 20, size + _SLACK_BYTES), SEGMENT_BYTES[1])
            settings = SpoolSettings(segment_bytes=segment_bytes, sender_id="redrive")
            self._drain_job = DrainJob(settings, self._profile, handler=lambda error: None)
        return self._drain_job


def _run(attempt: RedriveAttempt, letters: list[dict[str, Any]]) -> None:
    held = attempt.held
    place = f"{held.path}/{REDRIVE_NAME}"
    try:
        lock = held.fs.lock(place)  # two commands at once would send everything twice
    except BlockingIOError as error:
        pid = str(error.strerror or "")
        raise SlotInUse(place, pid=int(pid) if pid.isdecimal() else None) from None
    try:
        with sender_messages(), output.progress("Sending") as step:
            for at, letter in enumerate(letters):
                if not attempt.send(letter):
                    break
                step(at + 1, len(letters))
    except KeyboardInterrupt:
        attempt.trouble = Trouble(ExitCode.INTERRUPTED, "interrupted")
    finally:
        attempt.close()
        lock.release()


def _print(path: str, attempt: RedriveAttempt, total: int, *, as_json: bool) -> None:
    counts = {
        "acknowledged": len(attempt.acknowledged),
        "refused": len(attempt.refused),
        "damaged": len(attempt.damaged),
    }
    counts["left"] = total - sum(counts.values())
    trouble = attempt.trouble
    if as_json:
        cause = None if trouble is None else trouble.cause
        output.json_line({"slot": path, **counts, "cause": cause})
    elif not total:
        output.line("no dead letters")
    else:
        output.line(
            f"{output.many(counts['acknowledged'], 'dead letter')} acknowledged and removed, "
            f"{counts['refused']:,} refused again, {counts['damaged']:,} damaged, "
            f"{counts['left']:,} left"
        )
    output.flush()
    _end(attempt, as_json=as_json)


def _end(attempt: RedriveAttempt, *, as_json: bool) -> None:
    code, cause = None, ""
    if attempt.trouble is not None:
        code, cause = attempt.trouble
    elif attempt.damaged:
        code, cause = ExitCode.DAMAGE, "dead letters are damaged and stay in the slot"
    elif attempt.refused:
        code, cause = (
            ExitCode.REFUSED,
            "the server refused dead letters again; they stay in the slot",
        )
    if code is not None:
        output.error(code, cause, as_json=as_json)
        raise typer.Exit(code)
