"""Windows: the stretches of time that a feature aggregates, and the buckets they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from penstock.errors import InvalidArgument
from penstock.features.durations import duration_ms, duration_text
from penstock.features.event_column import Int64s
from penstock.features.names import nearest, shown

BUCKETS_MAX: Final = 64  # of one key in one window

WindowKind = Literal["sliding", "tumbling", "hopping", "forever"]


@dataclass(frozen=True, slots=True)
class Window:
    """Immutable. A bucket is named by its start, a multiple of `bucket_ms` since 1970. A feature
    without a window has one bucket, which starts at 0 and holds all events.

    Times are expected within 2^62 ms of 1970, so that the start of a bucket is an i64 too.
    """

    kind: WindowKind
    length_ms: int  # 0: forever
    bucket_ms: int  # 0: forever

    @property
    def is_forever(self) -> bool:
        """True for a feature that counts since the first event."""
        return self.kind == "forever"

    @property
    def buckets_max(self) -> int:
        """How many buckets of a key can be live at once."""
        return -(-self.length_ms // self.bucket_ms) if self.bucket_ms else 1

    def bucket_of(self, ts: int) -> int:
        """The start of the bucket that an event of this time belongs to."""
        return ts // self.bucket_ms * self.bucket_ms if self.bucket_ms else 0

    def buckets_of(self, ts: Int64s) -> Int64s:
        """`bucket_of` of many events."""
        if not self.bucket_ms:
            return np.zeros(len(ts), np.int64)
        return ts // self.bucket_ms * self.bucket_ms

    def live(self, now_ms: int) -> range:
        """The starts of the buckets that count at this time, oldest first."""
        width = self.bucket_ms
        match self.kind:
            case "forever":
                return range(1)
            case "sliding":
                first = ((now_ms - self.length_ms) // width + 1) * width
                return range(first, now_ms // width * width + 1, width)
            case "tumbling" | "hopping":
                last = now_ms // width * width
                return range(last + width - self.length_ms, last + 1, width)

    def first_live_start(self, now_ms: int) -> int:
        """The oldest bucket that counts at this time. Older ones never count again."""
        return self.live(now_ms).start

    def to_json(self) -> Any:
        """As the definition spells it; None if the feature counts forever."""
        length = duration_text(self.length_ms)
        match self.kind:
            case "forever":
                return None
            case "sliding":
                return length
            case "tumbling":
                return {"tumbling": length}
            case "hopping":
                return {"hopping": length, "every": duration_text(self.bucket_ms)}


FOREVER: Final = Window("forever", 0, 0)


def sliding(length: object) -> Window:
    """The time up to now, in at most 64 buckets."""
    length_ms = duration_ms(length, "window")
    return Window("sliding", length_ms, -(-length_ms // BUCKETS_MAX))


def tumbling(length: object) -> Window:
    """The running hour, day or the like, counted from 1970."""
    length_ms = duration_ms(length, "window")
    return Window("tumbling", length_ms, length_ms)


def hopping(length: object, every: object) -> Window:
    """The running bucket of `every` and the ones before it, `length` in all."""
    length_ms = duration_ms(length, "window")
    every_ms = duration_ms(every, "`every` of a hopping window")
    if length_ms % every_ms or length_ms // every_ms > BUCKETS_MAX:
        raise InvalidArgument(
            f"invalid hopping window of {duration_text(length_ms)} every "
            f"{duration_text(every_ms)}: expected a multiple of `every`, at most {BUCKETS_MAX} "
            "times it"
        )
    return Window("hopping", length_ms, every_ms)


def window_of(value: object) -> Window:
    """A window from JSON: None, "forever", "30m", {"tumbling": "1h"} or
    {"hopping": "1h", "every": "5m"}."""
    if isinstance(value, Window):
        return value
    if value is None or value == "forever":
        return FOREVER
    if not isinstance(value, Mapping):
        return sliding(value)
    members = set(value)
    if members == {"tumbling"}:
        return tumbling(value["tumbling"])
    if members == {"hopping", "every"}:
        return hopping(value["hopping"], value["every"])
    for member in value:
        if member not in ("tumbling", "hopping", "every"):
            near = nearest(member, ["tumbling", "hopping", "every"])
            raise InvalidArgument(f"invalid window {shown(value)}: unknown {shown(member)}; {near}")
    raise InvalidArgument(
        f"invalid window {shown(value)}: expected "
        '"30m", {"tumbling": "1h"} or {"hopping": "1h", "every": "5m"}'
    )
