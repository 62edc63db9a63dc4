"""`penstock spool skip`: moves frames to the dead letters for an operator. No frame is lost."""

from __future__ import annotations

from penstock.errors import InvalidArgument
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection
from penstock.storage.fs import Filesystem


def skip_frames(fs: Filesystem, sf_dir: str, sender_id: str, through: int | None) -> list[int]:
    """Move the oldest frame, or all up to `through`, to the dead letters. Returns their numbers."""
    settings = SpoolSettings(sf_dir=sf_dir, sender_id=sender_id, allow_network_fs=True)
    spool = open_spool(settings, fs=fs)
    skipped = []
    try:
        last = spool.acked_fsn + 1 if through is None else through
        if last > spool.published_fsn:
            raise InvalidArgument(
                f"no frame {last}: the newest frame of the slot is {spool.published_fsn}"
            )
        while spool.acked_fsn < last:
            fsn = spool.acked_fsn + 1
            spool.reject(fsn, Rejection("skipped", -1, "skipped by an operator"))
            skipped.append(fsn)
    finally:
        spool.close()
    return skipped
