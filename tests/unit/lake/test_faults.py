from __future__ import annotations

from penstock.errors import CorruptFrame, InvalidArgument, StorageError
from penstock.lake.faults import is_of_spark, told

TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed
Traceback (most recent call last):
  File "reader.py", line 3, in read
penstock.errors.CorruptFrame: /d/seg-1.data at byte 44: checksum differs; run `penstock fsck`

	at org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_ours_is_found_in_what_spark_says() -> None:
    found = told(TRACE, "/lake")

    assert isinstance(found, CorruptFrame)
    assert (found.path, found.offset) == ("/d/seg-1.data", 44)
    assert "checksum differs; run `penstock fsck`" in str(found)


def test_a_wrong_call_is_told_as_one() -> None:
    found = told("x\npenstock.errors.TopicNotFound: no topic named 'a'\n", "/lake")

    assert isinstance(found, InvalidArgument)
    assert str(found) == "no topic named 'a'"


def test_what_is_not_ours_is_told_in_one_line() -> None:
    found = told("\n[TABLE_OR_VIEW_NOT_FOUND] no such table\n'Project [*]\n", "/lake")

    assert isinstance(found, StorageError)
    assert str(found) == "/lake: Spark failed: [TABLE_OR_VIEW_NOT_FOUND] no such table"
    assert not is_of_spark(found)
