"""The kernel runs without Cython."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
PROGRAM = """
import sys

class NoCython:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].lower() == "cython":
            raise ImportError(name)

sys.meta_path.insert(0, NoCython())
from penstock.codec import kernel

assert not kernel.COMPILED
frames, offsets, _ = kernel.encode_appends(
    7, 1, 9, 4, [b"1", b"2"], [None, b"{}"], None, None, b"t", None
)
items, stop, reason = kernel.scan(frames, 0, len(frames))
assert (len(items), stop, reason) == (1, len(frames), 0)
assert kernel.measure(frames, offsets, 4, 0, 2, None) == (2, 4)
print(kernel.project(frames, offsets, 4, 0, 2, None, None, 9, 999, 31, 1, 7)[0].decode())
"""


def test_without_cython_the_source_runs_interpreted() -> None:
    environment = dict(os.environ, PENSTOCK_PURE="1", PYTHONPATH=str(SOURCE))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout == (
        '{"$seq":1,"$ts":9,"$tag":"t","data":1},{"$seq":2,"$ts":9,"$tag":"t","meta":{},"data":2}\n'
    )
