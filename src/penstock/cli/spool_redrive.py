"""`penstock spool redrive`: send dead letters again."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli import output
from penstock.cli.exits import ExitCode
from penstock.cli.options import AsJson, TokenFile
from penstock.cli.spool_sending import (
    Timeout,
    To,
    Trouble,
    checked_timeout,
    notes,
    target,
    trouble_of,
)
from penstock.cli.spool_slots import SlotDir, slot_path
from penstock.errors import InvalidArgument, SlotInUse
from penstock.sender import view
from penstock.sender.errand import Errand
from penstock.sender.profile import Profile
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
        int | None, typer.Option("--fsn", metavar="FSN", min=0, help="This dead letter alone.")
    ] = None,
    timeout: Timeout = 60,
    as_json: AsJson = False,
    token_file: TokenFile = None,
) -> None:
    """Send the dead letters of a slot again, as new frames.

    One that the server acknowledges is removed; one that it refuses again stays. The slot may be
    in use. A letter may arrive twice when this is interrupted between the two. Exit codes are
    those of drain.
    """
    checked_timeout(timeout)
    path = slot_path(slot)
    profile = target(to, token_file)
    names = {f"on_{name}_error": "halt" for name in _POLICIES}  # so that it stops at a refusal
    profile = msgspec.structs.replace(profile, **names)
    held = view.onlooker(OsFilesystem(), path)
    letters = [one for one in held.dead_letters() if fsn in (None, one["fsn"])]
    if fsn is not None and not letters:
        raise InvalidArgument(f"the slot has no dead letter {fsn}")
    round_ = Round(held, profile, timeout)
    if letters:
        _run(round_, letters)
    _print(path, round_, len(letters), as_json=as_json)


class Round:
    """One pass over dead letters, and what became of them."""

    def __init__(self, held: Slot, profile: Profile, timeout: float) -> None:
        self.acknowledged: list[int] = []
        self.refused: list[int] = []
        self.damaged: list[int] = []
        self.trouble: Trouble | None = None
        self.held = held
        self._profile = profile
        self._timeout = timeout
        self._errand: Errand | None = None

    def close(self) -> None:
        errand, self._errand = self._errand, None
        if errand is not None:
            errand.close()

    def send(self, letter: dict[str, Any]) -> bool:
        """Send one, and remove it when the server has it. Whether to go on with the next."""
        fsn, incarnation = letter["fsn"], bytes.fromhex(letter["incarnation"])
        try:
            _, payload = decode_frame(self.held.dead_letter(fsn, incarnation))
        except (BadFrame, FileNotFoundError) as error:
            output.note(f"dead letter {fsn} is damaged: {error}")
            self.damaged.append(fsn)
            return True
        errand = self._fitting(len(payload))
        errand.spool.append([payload])
        errand.courier.wake()
        if errand.run(self._timeout):
            self.held.remove_dead_letter(fsn, incarnation)
            self.acknowledged.append(fsn)
            return True
        self.close()  # what it holds is not sent any more
        halted = errand.courier.halted
        if halted is None or halted.fsn < 0:
            self.trouble = trouble_of(errand, self._timeout)
            return False
        output.note(
            output.one_line(f"dead letter {fsn} was refused again: {halted.category}: ")
            + output.one_line(halted.message)
        )
        self.refused.append(fsn)
        return True

    def _fitting(self, size: int) -> Errand:
        """The errand under way, if a frame of this size has room there; else a new one."""
        if self._errand is not None and size > self._errand.spool.payload_bytes_max:
            self.close()
        if self._errand is None:
            segment_bytes = min(max(4 << 20, size + _SLACK_BYTES), SEGMENT_BYTES[1])
            settings = SpoolSettings(segment_bytes=segment_bytes, sender_id="redrive")
            self._errand = Errand(settings, self._profile, handler=lambda error: None)
        return self._errand


def _run(round_: Round, letters: list[dict[str, Any]]) -> None:
    held = round_.held
    place = f"{held.path}/{REDRIVE_NAME}"
    try:
        lock = held.fs.lock(place)  # two at once would send everything twice
    except BlockingIOError as error:
        pid = str(error.strerror or "")
        raise SlotInUse(place, pid=int(pid) if pid.isdecimal() else None) from None
    try:
        with notes(), output.progress("Sending") as step:
            for at, letter in enumerate(letters):
                if not round_.send(letter):
                    break
                step(at + 1, len(letters))
    except KeyboardInterrupt:
        round_.trouble = Trouble(ExitCode.INTERRUPTED, "interrupted")
    finally:
        round_.close()
        lock.release()


def _print(path: str, round_: Round, total: int, *, as_json: bool) -> None:
    counts = {
        "acknowledged": len(round_.acknowledged),
        "refused": len(round_.refused),
        "damaged": len(round_.damaged),
    }
    counts["left"] = total - sum(counts.values())
    trouble = round_.trouble
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
    _end(round_, as_json=as_json)


def _end(round_: Round, *, as_json: bool) -> None:
    code, cause = None, ""
    if round_.trouble is not None:
        code, cause = round_.trouble
    elif round_.damaged:
        code, cause = ExitCode.DAMAGE, "dead letters are damaged and stay where they are"
    elif round_.refused:
        code, cause = ExitCode.REFUSED, "the server refused dead letters again, and they stay"
    if code is not None:
        output.error(code, cause, as_json=as_json)
        raise typer.Exit(code)
