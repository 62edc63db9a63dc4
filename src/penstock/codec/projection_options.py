"""What `kernel.project` gives of a record: bits to be added up."""

from __future__ import annotations

from typing import Final

TAG: Final = 1
META: Final = 2
DATA: Final = 4
DOLLAR: Final = 8  # keys as the HTTP API spells them: $seq, $ts, $node, $tag
VERIFY: Final = 16  # check every frame before it is shown
ARRAY: Final = 32  # put brackets around it all
FRAMES: Final = 64  # the frames themselves, back to back, instead of JSON
