"""Options of a reader."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.spark.offsets import StreamOffset
from penstock.spark.options import SourceOptions, read_options


def options(**given: str) -> SourceOptions:
    return read_options({"path": "/data", "topic": "t", **given})


def test_every_option_has_its_place() -> None:
    found = options(
        url="http://h",
        token="secret",
        topic="a, b*,a",
        STARTINGSEQ="5",
        endingSeq="9",
        maxRecordsPerTrigger="10",
        maxBytesPerTrigger="11",
        onGap="REPORT",
        partitionRecords="12",
        consumer="me",
        skipCorrupt="true",
        startingOffsets='{"a": {"epoch": 1, "seq": 2}}',
        endingOffsets="{}",
        rows="gaps",
        pushFilters="True",
        gapLedger="/gaps",
        schema="n int",
        mode="failfast",
        includeDeleted="false",
        checkpointLocation="/else",
    )

    assert found == SourceOptions(
        topics=("a", "b*"),
        path="/data",
        url="http://h",
        token="secret",
        starting_seq=5,
        ending_seq=9,
        records_max=10,
        bytes_max=11,
        on_gap="report",
        partition_records=12,
        consumer="me",
        skip_corrupt=True,
        starting_offsets={"a": StreamOffset(1, 2)},
        ending_offsets={},
        rows="gaps",
        push_filters=True,
        gap_ledger="/gaps",
        schema="n int",
        mode="failfast",
    )
    assert options(columns="seq, data").columns == ("seq", "data")
    assert options(startingTimestamp="1970-01-01T00:00:01").starting_ts == 1000


def test_names_and_patterns_choose_topics() -> None:
    found = options(topic="b,a*")

    assert found.chosen(["a1", "a2", "c"]) == ["a1", "a2", "b"]
    assert found.matches("a9")
    assert not found.matches("c")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"topic": " , "}, "option topic is missing"),
        ({"path": ""}, "no source: set option path"),
        ({"topic": "no spaces"}, "topic"),
        ({"startingSeq": "-1"}, "option startingSeq must be a whole number"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp must be milliseconds"),
        ({"maxRecordsPerTrigger": "0"}, "must be at least 1"),
        ({"onGap": "shout"}, "option onGap must be fail, report or ignore"),
        ({"skipCorrupt": "maybe"}, "option skipCorrupt must be true or false"),
        ({"mode": "dropmalformed"}, "option mode must be permissive or failfast"),
        ({"rows": "lines"}, "option rows must be records or gaps"),
        ({"includeDeleted": "true"}, "a delete is permanent"),
        ({"consumer": "me"}, "option consumer needs url"),
        ({"schema": "n int", "columns": "seq"}, "remove option columns"),
        ({"startingSeq": "1", "startingTimestamp": "5"}, "remove one of them"),
        ({"startingSequence": "1"}, "did you mean startingSeq"),
        ({"bogus": "1"}, "unknown option 'bogus' for format penstock$"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        options(**given)


def test_no_error_shows_a_token() -> None:
    with pytest.raises(InvalidArgument) as caught:
        options(token="secret", onGap="no")

    assert "secret" not in str(caught.value)
