"""Reports the losses of a spool to the log and to the error handler."""

from __future__ import annotations

import logging

from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.error_policy import Category, ErrorPolicy, SenderError
from penstock.sender.recovery import Damage
from penstock.sender.spool import Spool

_log = logging.getLogger("penstock.sender")


def report_losses(spool: Spool, sender_id: str, inbox: ErrorInbox) -> None:
    """Report the losses found at the opening now, and later ones when they are found."""

    def report(damage: Damage, frames: int) -> None:
        if frames:
            inbox.put(_error(damage, frames, sender_id))  # the inbox logs every loss
        else:
            _log.warning(
                "slot %r: damage, but no unacknowledged frame is lost: %s", sender_id, damage
            )

    if spool.torn_bytes:
        _log.warning(
            "slot %r: %d bytes after the newest frame are not a frame: an incomplete write "
            "or damage. They were copied to the quarantine folder",
            sender_id,
            spool.torn_bytes,
        )
    spool.watch_damage(report)


def _error(damage: Damage, frames: int, sender_id: str) -> SenderError:
    first = damage.last_fsn - frames + 1  # the frames before it were acknowledged
    text = f"{damage.reason} ({damage.path}, {damage.length} bytes at {damage.offset})"
    if frames > 1:
        text = f"frames {first} to {damage.last_fsn}: {text}"
    return SenderError(Category.SPOOL_DAMAGE, ErrorPolicy.LOSE, text, first, sender_id=sender_id)
