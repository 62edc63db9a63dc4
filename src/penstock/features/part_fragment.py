"""One of several snapshots that are loaded into one part: its slots and windows get the numbers
that they have there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.features import part_snapshot
from penstock.features.event_column import Int64s
from penstock.features.part_snapshot import Piece
from penstock.features.windows import Window


class Fragment:
    """`begin` comes first."""

    def __init__(self) -> None:
        self.used = 0
        self.first_slot = 0  # in the part that it is loaded into
        self.key_bytes = 0
        self.largest = 0
        self.cells: list[int] = []  # how many there are, about, of each window of the part
        self.counts: Mapping[str, int] = {}
        self.free: Int64s = np.empty(0, np.int64)
        self._numbers: list[int | None] = []  # of the part's windows, in the snapshot

    def begin(
        self,
        pieces: Sequence[memoryview],
        windows: Sequence[Window],
        lacking: Collection[Window] = (),
    ) -> None:
        """Read the head, which is the first piece. ValueError if the snapshot lacks one of the
        windows that is not known to be lacking; those have no cells."""
        own = part_snapshot.decode(pieces[0] if pieces else memoryview(b""))["part"]
        head: Mapping[str, Any] = own["head"]
        try:
            self._numbers = [
                None if window in lacking else head["windows"].index(window.to_json())
                for window in windows
            ]
        except ValueError:
            raise ValueError("the windows are others") from None
        sizes = head.get("cells", [0] * len(head["windows"]))
        self.cells = [0 if number is None else sizes[number] for number in self._numbers]
        self.used = head["used"]
        self.key_bytes = head["key_bytes"]
        self.largest = head["largest"]
        self.counts = head["counts"]
        self.free = own["free"]
        size = sum(map(len, pieces))
        if max(self.used, self.key_bytes) > size:  # before memory is taken
            raise ValueError(f"the head promises more keys than {size} bytes hold")
        self.cells = [min(count, size) for count in self.cells]

    def piece(self, data: memoryview) -> Piece:
        """Another piece, as the part would have saved it."""
        piece = part_snapshot.decode(data)
        keys = piece["keys"]
        slots = keys["slots"]
        if len(slots) and not 0 <= slots.min() <= slots.max() < self.used:
            raise ValueError("a slot is not one of the part")
        keys["slots"] = slots + self.first_slot
        none = {"counts": np.zeros(len(slots), np.int32), "starts": np.empty(0, np.int64)}
        cells = [none if number is None else piece[f"cells {number}"] for number in self._numbers]
        return piece | {f"cells {number}": one for number, one in enumerate(cells)}
