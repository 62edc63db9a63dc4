"""`penstock spool drain`: send what a sender left behind."""

from __future__ import annotations

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
from penstock.sender.errand import Errand, Outcome
from penstock.sender.inbox import loudly
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import DEAD_LETTER_NAME


def register(app: typer.Typer) -> None:
    app.command()(drain)


def drain(
    slot: SlotDir,
    to: To,
    timeout: Timeout = 60,
    as_json: AsJson = False,
    token_file: TokenFile = None,
) -> None:
    """Send what waits in a slot whose sender is gone, and leave it empty.

    Exits with 3 when frames were lost to damage, 9 without a server, 10 when it denies access, 11
    when it refused frames, 6 when it fell silent. What was not acknowledged stays.
    """
    idle_s = checked_timeout(timeout)
    path = slot_path(slot)
    profile = target(to, token_file)
    sf_dir, _, sender_id = path.rpartition("/")
    profile = msgspec.structs.replace(profile, sender_id=sender_id)
    settings = SpoolSettings(sf_dir=sf_dir, sender_id=sender_id)
    trouble = None
    with notes():
        errand = Errand(settings, profile, handler=loudly)
        try:
            with output.progress("Draining") as step:
                is_done = errand.run(idle_s, step)
            if is_done:  # what a drainer noted is over
                errand.spool.slot.note_error(None)
                errand.spool.slot.clear_failed()
        except KeyboardInterrupt:
            is_done, trouble = False, Trouble(ExitCode.INTERRUPTED, "interrupted")
        finally:
            errand.close()
        outcome = errand.outcome
        if not is_done and outcome.left and trouble is None:
            trouble = trouble_of(errand, timeout)
    _print(path, outcome, trouble, as_json=as_json)
    _end(outcome, trouble, as_json=as_json)


def _print(path: str, outcome: Outcome, trouble: Trouble | None, *, as_json: bool) -> None:
    if as_json:
        cause = None if trouble is None else trouble.cause
        output.json_line({"slot": path, **msgspec.structs.asdict(outcome), "cause": cause})
    else:
        lost = f"{outcome.lost:,} {'LOST' if outcome.lost else 'lost'}"
        kept = f" (in {DEAD_LETTER_NAME})" if outcome.refused else ""
        output.line(
            f"{output.many(outcome.acknowledged, 'frame')} acknowledged, "
            f"{outcome.refused:,} refused{kept}, {lost}, {outcome.left:,} left"
        )
    output.flush()


def _end(outcome: Outcome, trouble: Trouble | None, *, as_json: bool) -> None:
    """The one exit code there is goes to the worst: what is lost is told once, what is left is
    told again next time."""
    code = None if trouble is None else trouble.code
    causes = [] if trouble is None else [trouble.cause]
    if outcome.refused:
        code = code or ExitCode.REFUSED
        causes.append(
            f"the server refused {output.many(outcome.refused, 'frame')}: see `penstock spool "
            "inspect`"
        )
    if outcome.lost:
        code = code if code is ExitCode.INTERRUPTED else ExitCode.DAMAGE
        causes.append(f"{output.many(outcome.lost, 'frame')} lost to damage of the spool")
    if code is not None:
        output.error(code, "; ".join(causes), as_json=as_json)
        raise typer.Exit(code)
