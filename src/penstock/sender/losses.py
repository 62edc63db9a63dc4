"""What a spool lost, told: in the log, and to whoever handles errors."""

from __future__ import annotations

import logging

from penstock.sender.inbox import Inbox
from penstock.sender.recovery import Damage
from penstock.sender.spool import Spool
from penstock.sender.verdicts import Act, Category, SenderError

_log = logging.getLogger("penstock.sender")


def tell_losses(spool: Spool, sender_id: str, inbox: Inbox) -> None:
    """Say at once what the spool had lost when it was opened, and from now on what it loses."""

    def tell(damage: Damage, frames: int) -> None:
        if frames:
            inbox.put(_error(damage, frames, sender_id))  # which logs every loss
        else:
            _log.warning("slot %r: damage that hit no frame that waits: %s", sender_id, damage)

    if spool.torn_bytes:
        _log.warning(
            "slot %r: %d bytes behind the newest frame are no frame: a write that a crash cut "
            "short, or damage. They are kept in the quarantine folder",
            sender_id,
            spool.torn_bytes,
        )
    spool.watch_damage(tell)


def _error(damage: Damage, frames: int, sender_id: str) -> SenderError:
    first = damage.last_fsn - frames + 1  # those before it had been acknowledged
    text = f"{damage.reason} ({damage.path}, {damage.length} bytes at {damage.offset})"
    if frames > 1:
        text = f"frames {first} to {damage.last_fsn}: {text}"
    return SenderError(Category.SPOOL_DAMAGE, Act.LOSE, text, first, sender_id=sender_id)
