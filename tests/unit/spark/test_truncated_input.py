"""A partition that ends, and one that breaks off; with Spark: tests/spark/test_replays.py."""

from __future__ import annotations

import io
from typing import Any

import pytest

from penstock.spark.truncated_input import InputTruncated, untruncated


def worker(rest: bytes | OSError) -> tuple[list[int], bytes]:
    """As Spark's worker: its input is a variable of its own. What was read, and what is left."""

    class Raw(io.BytesIO):
        def peek(self, size: int) -> bytes:
            if isinstance(rest, OSError):
                raise rest
            return self.getvalue()

    input_data_stream: Any = Raw(b"" if isinstance(rest, OSError) else rest)

    def process() -> list[int]:
        return list(untruncated(iter([1, 2])))

    return process(), input_data_stream.read()


@pytest.mark.parametrize("rest", [b"\xff\xff\xff\xfc", b"\xff\xff", b"\xff\xff\xff\xfc\0\0"])
def test_a_good_end_is_left_for_spark(rest: bytes) -> None:
    assert worker(rest) == ([1, 2], rest)


@pytest.mark.parametrize("rest", [b"", b"\0\0\0\0", OSError("reset")])
def test_rows_that_break_off_are_not_all(rest: bytes | OSError) -> None:
    with pytest.raises(InputTruncated, match="was cut off"):
        worker(rest)


def test_elsewhere_there_is_no_telling() -> None:
    with pytest.raises(AssertionError, match=r"use 4\.3"):
        list(untruncated(iter([])))
