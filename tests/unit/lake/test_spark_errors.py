from __future__ import annotations

import pytest

from penstock.cli.exit_codes import ExitCode, code_of
from penstock.errors import (
    ConnectionFailed,
    CorruptFrame,
    DirectoryInUse,
    InvalidArgument,
    Overloaded,
    PenstockError,
    ServerError,
    StorageError,
    TopicNotFound,
    Unauthorized,
)
from penstock.lake.spark_errors import is_of_spark, is_passing, parsed

TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed
Traceback (most recent call last):
  File "reader.py", line 3, in read
penstock.errors.CorruptFrame: /d/seg-1.data at byte 44: checksum differs; run `penstock fsck`

	at org.apache.spark.api.python.BasePythonRunner
"""


def test_an_error_of_ours_is_found_in_what_spark_says() -> None:
    found = parsed(TRACE, "/lake")

    assert isinstance(found, CorruptFrame)
    assert (found.path, found.offset) == ("/d/seg-1.data", 44)
    assert "checksum differs; run `penstock fsck`" in str(found)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TopicNotFound("a"), ExitCode.TOPIC_NOT_FOUND),
        (Unauthorized("no token"), ExitCode.DENIED),
        (InvalidArgument("option x"), ExitCode.USAGE),
        (ConnectionFailed("nobody there", retry_after_ms=5), ExitCode.UNREACHABLE),
        (DirectoryInUse("/d", pid=7), ExitCode.IN_USE),
        (ServerError("http://h", reason="it failed"), ExitCode.STORAGE),
    ],
)
def test_an_error_keeps_its_class_and_so_its_exit_code(
    error: PenstockError, code: ExitCode
) -> None:
    found = parsed(f"x\npenstock.errors.{type(error).__name__}: {error}\n", "/lake")

    assert type(found) is type(error)
    assert str(found) == str(error)
    assert code_of(found) == code
    for name in ("topic", "path"):
        assert getattr(found, name, None) == getattr(error, name, None)


def test_an_error_of_java_has_its_outermost_and_its_innermost_cause() -> None:
    text = """An error occurred while calling o55.parquet.
: org.apache.spark.SparkException: [FAILED_READ.NO_HINT] Error in file:///a.csv. SQLSTATE: KD001
\tat org.apache.spark.sql.Some$.thing(Some.scala:55)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD] Malformed records.
Caused by: org.apache.spark.SparkRuntimeException: [MALFORMED_CSV] Record: 5,6,7 SQLSTATE: KD000
"""

    assert str(parsed(text, "/lake")) == (
        "/lake: Spark failed: [FAILED_READ.NO_HINT] Error in file:///a.csv.; "
        "[MALFORMED_CSV] Record: 5,6,7"
    )
    assert str(parsed("An error occurred while calling o1.x\n", "/lake")).endswith("o1.x")


def test_an_error_that_a_query_of_ours_raises_is_one_of_usage() -> None:
    found = parsed("[USER_RAISED_EXCEPTION] a label has no time SQLSTATE: P0001\n\tat x", "/lake")

    assert type(found) is InvalidArgument
    assert str(found) == "a label has no time"


def test_some_errors_pass_by_themselves() -> None:
    moving = CorruptFrame(
        "/d", reason="files keep moving while they are looked at", hint="try again"
    )
    lost = parsed("Job aborted: ExecutorLostFailure (executor 1 exited)\n", "/lake")
    vanished = parsed("Job aborted\nFileNotFoundError: [Errno 2] No such file: 'x'\n", "/lake")
    passing = [
        ConnectionFailed("nobody there", retry_after_ms=5),
        Overloaded("busy", retry_after_ms=5),
        ServerError("http://h", reason="it failed"),
        moving,
        parsed(f"x\npenstock.errors.CorruptFrame: {moving}\n", "/lake"),
        lost,
        vanished,
        FileNotFoundError("x"),
    ]
    lasting = [
        parsed(TRACE, "/lake"),
        InvalidArgument("a column cannot become another"),
        Unauthorized("no token"),
        TopicNotFound("a"),
        parsed("penstock.spark.gaps.GapFound: /d: records 1 to 2 are gone (cap)\n", "/lake"),
        parsed("[UNRESOLVED_COLUMN] x\n", "/lake"),
        ServerError("http://h", reason="stored data is damaged; the server's log says where"),
        OSError(28, "No space left on device"),
        ValueError("a bug"),
    ]

    assert [error for error in passing if not is_passing(error)] == []
    assert [error for error in lasting if is_passing(error)] == []


def test_what_is_not_ours_is_told_in_one_line() -> None:
    found = parsed("\n[TABLE_OR_VIEW_NOT_FOUND] no such table\n'Project [*]\n", "/lake")

    assert isinstance(found, StorageError)
    assert str(found) == "/lake: Spark failed: [TABLE_OR_VIEW_NOT_FOUND] no such table"
    assert not is_of_spark(found)
