"""A row that nests too deep is refused alone: no other row is lost with it, and no frame."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidArgument
from penstock.sender.sender import Sender
from tests.support.sink import DEADLINE_S, Sink, conf
from tests.unit import nesting


@pytest.mark.parametrize("shape", [*nesting.SHAPES, "value"])
def test_a_row_that_nests_too_deep_is_refused_alone(shape: str) -> None:
    made: Any = nesting.value if shape == "value" else nesting.SHAPES[shape]
    good, bad = made(nesting.MOST), made(nesting.MOST + 1)
    with Sink() as sink, Sender(conf(sink)) as sender:
        sender.append("t", "before")
        for refused in (
            lambda: sender.append("t", bad),
            lambda: sender.append("t", 1, meta=bad),
            lambda: sender.append_batch("t", [1, bad, 2]),
            lambda: sender.append_batch("t", [b"1", bad, b"2"]),
        ):
            with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
                refused()
        sender.append("t", good)
        sender.append_batch("t", [good, b'"after"'])

        assert sender.drain(DEADLINE_S)
        rows = sink.rows()
        assert (rows[0], rows[-1], len(rows)) == (b'"before"', b'"after"', 4)
        assert rows[1] == rows[2]
        if shape != "value":
            assert rows[1] == good
