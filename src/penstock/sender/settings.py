"""The settings of a spool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from penstock.errors import InvalidArgument
from penstock.limits import KIB, MIB
from penstock.sender.slot import check_sender_id

Durability = Literal["memory", "periodic", "append"]

MEMORY_BYTES_MAX: Final = 128 * MIB
DISK_BYTES_MAX: Final = 10 * 1024 * MIB
_UNHURRIED_S: Final = 0.2
_PREALLOCATED_MAX: Final = 3
SEGMENT_BYTES: Final = (4 * KIB, 1024 * MIB)  # the least and the most


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """Checked when created. Without `sf_dir` the spool is in memory and ends with the process."""

    sf_dir: str | None = None
    sender_id: str = "default"
    segment_bytes: int = 4 * MIB
    total_bytes_max: int | None = None  # 128 MiB in memory, 10 GiB on disk
    durability: Durability = "memory"
    sync_interval_s: float = 5.0
    allow_network_fs: bool = False

    def __post_init__(self) -> None:
        check_sender_id(self.sender_id)
        low, high = SEGMENT_BYTES
        if not low <= self.segment_bytes <= high:
            raise InvalidArgument(
                f"segment_bytes must be from {low} to {high}, not {self.segment_bytes}"
            )
        if self.total_bytes_max is not None and self.total_bytes_max < 2 * self.segment_bytes:
            raise InvalidArgument("total_bytes_max must be at least two segments")
        if self.durability not in ("memory", "periodic", "append"):
            raise InvalidArgument(
                f"unknown durability {self.durability!r}: expected memory, periodic or append"
            )
        if self.durability != "memory" and self.sf_dir is None:
            raise InvalidArgument(f"durability {self.durability!r} needs sf_dir")
        if self.sync_interval_s <= 0:
            raise InvalidArgument(f"sync_interval_s must be positive, not {self.sync_interval_s!r}")

    def preallocated_segments(self, lasted_s: float, stored_bytes: int) -> int:
        """The number of segments to preallocate: one; more while segments fill so fast that the
        next would be needed before it is created, unless the spool is half full."""
        is_hurried = self.sf_dir is not None and 0 < lasted_s <= _UNHURRIED_S
        return _PREALLOCATED_MAX if is_hurried and 2 * stored_bytes <= self.cap_bytes else 1

    def prefaults_segments(self, lasted_s: float) -> bool:
        """False if each frame is synced: the first sync of a file would write all its pages. False
        while segments fill so fast that this work would delay the frames."""
        is_due = self.sf_dir is not None and self.durability != "append"
        return is_due and lasted_s > _UNHURRIED_S

    @property
    def cap_bytes(self) -> int:
        if self.total_bytes_max is not None:
            return self.total_bytes_max
        default = MEMORY_BYTES_MAX if self.sf_dir is None else DISK_BYTES_MAX
        return max(default, 2 * self.segment_bytes)
