"""Settings of one log, given in code or by `PENSTOCK_*` variables of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import get_args

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.types import Durability


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a log. The environment variable of a field is its name in capitals with the
    prefix `PENSTOCK_`."""

    wal_shards: int = min(os.cpu_count() or 1, 8)
    wal_file_bytes: int = limits.WAL_FILE_BYTES
    sync_tick_ms: int = limits.SYNC_TICK_MS
    segment_max_events: int = limits.SEGMENT_RECORDS_MAX
    segment_max_bytes: int = limits.SEGMENT_BYTES_MAX
    segment_max_age_ms: int = limits.SEGMENT_AGE_MS_MAX
    checkpoint_wal_bytes: int = limits.CHECKPOINT_WAL_BYTES
    cold_dir: str = ""  # folder or URL of an object store; empty: as before, or no cold tier
    hot_retain_segments: int = limits.HOT_RETAIN_SEGMENTS  # newest of each topic that stay
    hot_retain_bytes: int = 0  # the same by size, 0 for any; the stricter one counts
    cold_cache_bytes: int = limits.COLD_CACHE_BYTES  # fetched objects that are kept for a while
    default_durability: Durability = "disk"
    max_topics: int = limits.TOPICS_MAX
    max_routers: int = limits.ROUTERS_MAX
    append_timeout_s: float = 30.0
    upkeep_interval_ms: int = 250
    projection_interval_ms: int = 30_000  # between two saves of a table's state
    feature_bytes_max: int = limits.FEATURE_BYTES_MAX  # of memory, of feature tables
    allow_network_fs: bool = False  # true: open a data directory on NFS, SMB and their kin
    background: bool = True  # false: no threads; every call finishes its own work

    def __post_init__(self) -> None:
        bounds = {
            "wal_shards": (1, limits.WAL_SHARDS_MAX),
            "wal_file_bytes": (4 * limits.KIB, 1024 * limits.MIB),
            "sync_tick_ms": (1, 60_000),
            "segment_max_events": (1, 10_000_000),
            "segment_max_bytes": (1 * limits.KIB, 1024 * limits.MIB),
            "segment_max_age_ms": (0, 1 << 62),
            "hot_retain_segments": (0, 1 << 31),
            "hot_retain_bytes": (0, 1 << 62),
            "cold_cache_bytes": (0, 1 << 62),
            "checkpoint_wal_bytes": (4 * limits.KIB, 1 << 40),
            "max_topics": (0, 1 << 31),
            "max_routers": (0, 1 << 31),
            "upkeep_interval_ms": (1, 60_000),
            "projection_interval_ms": (1, 86_400_000),
            "feature_bytes_max": (limits.TABLE_MEMORY_MIN, limits.TABLE_MEMORY_MAX),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidArgument(
                    f"setting {name} is {value}: expected a value from {low} to {high}"
                )
        if self.default_durability not in get_args(Durability):
            raise InvalidArgument(
                f"unknown durability {self.default_durability!r} in setting default_durability: "
                f"expected {', '.join(get_args(Durability))}"
            )


def from_environment(environ: Mapping[str, str], **overrides: object) -> Settings:
    """Settings from `PENSTOCK_*` variables. `overrides` take precedence."""
    given: dict[str, object] = {}
    for name in Settings.__struct_fields__:
        text = environ.get(f"PENSTOCK_{name.upper()}")
        if text is not None:
            given[name] = text
    unknown = sorted(set(overrides) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise InvalidArgument(f"unknown setting {unknown[0]!r}: expected one of {known}")
    given.update(overrides)
    try:
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"invalid setting: {error}") from None
