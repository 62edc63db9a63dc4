"""Detects whether the input of a sink task is complete or was cut off.

If the producer of the rows fails, or an executor dies, Spark closes the pipe to the worker of the
sink. Arrow treats that as the normal end. A task that then sent its last frame would write a
shorter partition than its next attempt. After a normal end Spark writes an end marker, which is
peeked here and not consumed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from penstock.errors import PenstockError

_END: Final = (-4).to_bytes(4, "big", signed=True)  # SpecialLengths.END_OF_STREAM
_STREAM: Final = "input_data_stream"  # what pyspark.worker calls its input


class InputTruncated(PenstockError):
    """The input of a task was cut off: the attempt has failed elsewhere."""


def untruncated(batches: Iterator[Any]) -> Iterator[Any]:
    """The same batches; InputTruncated if they are cut off. Works only in a worker of Spark."""
    yield from batches
    try:
        next_bytes = _stream().peek(1)[: len(_END)]
    except OSError as error:
        raise InputTruncated(f"the input of the sink was cut off: {error}") from None
    if not next_bytes or not _END.startswith(next_bytes):
        raise InputTruncated("the input of the sink was cut off: see why the attempt failed")


def _stream() -> Any:
    """The input stream of this worker. Spark has no API for it: it is a variable of a caller."""
    frame = sys._getframe()
    while frame is not None:
        if _STREAM in frame.f_locals:
            return frame.f_locals[_STREAM]
        frame = frame.f_back  # type: ignore[assignment]
    raise AssertionError("unsupported version of PySpark: use 4.3")
