"""When a sender flushes by itself."""

from __future__ import annotations

import sys

from penstock.limits import BATCH_RECORDS_MAX
from penstock.sender.auto_flush import FlushLimits, limits_of
from penstock.sender.connect_string import parse


def limits(keys: str) -> FlushLimits:
    return limits_of(parse(f"ws::addr=localhost:4000;{keys}"))


def test_each_limit_is_a_key_of_the_connect_string() -> None:
    given = limits("auto_flush_rows=10;auto_flush_bytes=2000;auto_flush_interval=300;")

    assert given == FlushLimits(10, 2000, 0.3)


def test_a_limit_that_is_off_is_that_of_a_frame() -> None:
    given = limits("auto_flush_rows=off;auto_flush_bytes=off;auto_flush_interval=off;")

    assert given == FlushLimits(BATCH_RECORDS_MAX, sys.maxsize, 0.0)


def test_without_auto_flush_nothing_but_the_frame_flushes() -> None:
    assert limits("auto_flush=off;") == FlushLimits(BATCH_RECORDS_MAX, sys.maxsize, 0.0)
