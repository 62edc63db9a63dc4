"""Were these all rows of a partition, or did they break off?

When what makes the rows fails, or an executor dies, Spark closes the pipe to the worker in which
the sink runs. Arrow takes that for a good end. A task that then sent its last frame would leave a
shorter partition in the topic than the one that its next attempt has. A good end is followed by
a word of Spark's, which is looked for here and left where it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from penstock.errors import PenstockError

_END: Final = (-4).to_bytes(4, "big", signed=True)  # SpecialLengths.END_OF_STREAM
_STREAM: Final = "input_data_stream"  # what pyspark.worker calls its input


class InputBroke(PenstockError):
    """Spark's rows ended before their end: the attempt has failed elsewhere."""


def whole(batches: Iterator[Any]) -> Iterator[Any]:
    """The same batches, and InputBroke where they break off. In a worker of Spark only."""
    yield from batches
    try:
        next_bytes = _stream().peek(1)[: len(_END)]
    except OSError as error:
        raise InputBroke(f"the input of the sink broke off: {error}") from None
    if not next_bytes or not _END.startswith(next_bytes):
        raise InputBroke("the input of the sink broke off: see why the attempt failed")


def _stream() -> Any:
    """The input of this worker, which Spark gives to nobody: it is a variable of a caller."""
    frame = sys._getframe()
    while frame is not None:
        if _STREAM in frame.f_locals:
            return frame.f_locals[_STREAM]
        frame = frame.f_back  # type: ignore[assignment]
    raise AssertionError("this version of PySpark has its input elsewhere: use 4.3")
