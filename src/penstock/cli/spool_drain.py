"""`penstock spool drain`: send the frames of a slot whose sender is gone."""

from __future__ import annotations

import msgspec
import typer

from penstock.cli import output
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
from penstock.sender.drain_job import DrainJob, Outcome
from penstock.sender.error_inbox import log_error
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
    """Send the frames that wait in a slot whose sender is gone.

    Frames that are not acknowledged stay in the slot. Exits with 3 if frames were lost to damage, 6
    if the server stopped acknowledging, 9 if it cannot be reached, 10 if it denies access, 11 if it
    refused frames.
    """
    idle_s = checked_timeout(timeout)
    path = slot_path(slot)
    profile = connect_options(to, token_file)
    sf_dir, _, sender_id = path.rpartition("/")
    profile = msgspec.structs.replace(profile, sender_id=sender_id)
    # Wherever it is: what waits there has to come out.
    settings = SpoolSettings(sf_dir=sf_dir, sender_id=sender_id, allow_network_fs=True)
    trouble = None
    with sender_messages():
        drain_job = DrainJob(settings, profile, handler=log_error)
        try:
            with output.progress("Draining") as step:
                is_done = drain_job.run(idle_s, step)
            if is_done:  # errors that a drainer recorded are over
                drain_job.spool.slot.record_error(None)
                drain_job.spool.slot.clear_failed()
        except KeyboardInterrupt:
            is_done, trouble = False, Trouble(ExitCode.INTERRUPTED, "interrupted")
        finally:
            drain_job.close()
        outcome = drain_job.outcome
        if not is_done and outcome.left and trouble is None:
            trouble = trouble_of(drain_job, timeout)
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
    """Exit with the code of the worst result. Losses come first: they are reported only once,
    while frames that are left are reported again next time."""
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
