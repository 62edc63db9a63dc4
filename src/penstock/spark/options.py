"""The options of `spark.read` and `spark.readStream`. Pure."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from penstock.errors import InvalidArgument
from penstock.spark.offsets import StreamOffset, parsed
from penstock.topics import validation

OnGap = Literal["fail", "report", "ignore"]
Rows = Literal["records", "gaps"]
Mode = Literal["permissive", "failfast"]
SEQ_MAX: Final = (1 << 63) - 1
# Options that Spark adds or uses itself.
_OF_SPARK = {
    "checkpointlocation",
    "queryname",
    "outputmode",
    "triggerinterval",
    "serialization.format",
}


class SourceOptions(msgspec.Struct, frozen=True):
    """Where records come from, which records, and how many at a time."""

    topics: tuple[str, ...]  # names, or patterns with `*`
    path: str = ""  # a data directory, or a cold tier: a folder or the URL of an object store
    url: str = ""
    token: str = ""
    starting_seq: int = 0  # the first seq to read; 0: the earliest
    starting_ts: int = 0  # ms since 1970; 0: any
    ending_seq: int = SEQ_MAX
    records_max: int = 0  # in one trigger; 0: any number
    bytes_max: int = 0
    on_gap: OnGap = "fail"
    partition_records: int = 262_144  # at most, in one piece of work; a task may have several
    consumer: str = ""  # name of the consumer position that a stream moves
    skip_corrupt: bool = False
    starting_offsets: dict[str, StreamOffset] = {}  # by topic: the last seq that was read before
    ending_offsets: dict[str, StreamOffset] = {}  # by topic: the last seq to read
    rows: Rows = "records"
    columns: tuple[str, ...] = ()  # empty: all columns
    push_filters: bool = False
    gap_ledger: str = ""  # a directory
    schema: str = ""  # columns to decode, as DDL
    mode: Mode = "permissive"

    def matches(self, topic: str) -> bool:
        return any(fnmatch.fnmatchcase(topic, one) for one in self.topics)

    def chosen(self, known: Iterable[str]) -> list[str]:
        """The known topics that match, and all names without `*`, sorted."""
        found = {name for name in known if self.matches(name)}
        return sorted(found | {name for name in self.topics if "*" not in name})


_NAMES: Final = {
    "path": "path",
    "url": "url",
    "token": "token",
    "topic": "topics",
    "startingseq": "starting_seq",
    "startingtimestamp": "starting_ts",
    "endingseq": "ending_seq",
    "maxrecordspertrigger": "records_max",
    "maxbytespertrigger": "bytes_max",
    "ongap": "on_gap",
    "partitionrecords": "partition_records",
    "consumer": "consumer",
    "skipcorrupt": "skip_corrupt",
    "startingoffsets": "starting_offsets",
    "endingoffsets": "ending_offsets",
    "rows": "rows",
    "columns": "columns",
    "pushfilters": "push_filters",
    "gapledger": "gap_ledger",
    "schema": "schema",
    "mode": "mode",
    "includedeleted": "",
}
_SPELLED: Final = (
    "path",
    "url",
    "token",
    "topic",
    "startingSeq",
    "startingTimestamp",
    "endingSeq",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "onGap",
    "partitionRecords",
    "consumer",
    "skipCorrupt",
    "startingOffsets",
    "endingOffsets",
    "rows",
    "columns",
    "pushFilters",
    "gapLedger",
    "schema",
    "mode",
    "includeDeleted",
)


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a reader. InvalidArgument names the wrong one."""
    fields: dict[str, Any] = {}
    for key, text in given.items():
        lowered = key.lower()
        field = _NAMES.get(lowered)
        if field is None:
            if lowered in _OF_SPARK:
                continue
            near = difflib.get_close_matches(lowered, list(_NAMES), 1, 0.6)
            spelled = next((one for one in _SPELLED if [one.lower()] == near), "")
            hint = f": did you mean {spelled}?" if spelled else ""
            raise InvalidArgument(f"unknown option {key!r} for format penstock{hint}")
        value = _READERS[field](_spelling(lowered), text)
        if field:
            fields[field] = value
    if not fields.get("topics"):
        raise InvalidArgument("option topic is missing: a name, names with commas, or a pattern")
    if not fields.get("path") and not fields.get("url"):
        raise InvalidArgument(
            "no source: set option path (a data directory or a cold tier), url (a server), or both "
            "to read old records from the directory and new ones from the server"
        )
    if fields.get("consumer") and not fields.get("url"):
        raise InvalidArgument("option consumer needs url: the server keeps the position")
    if fields.get("starting_seq") and fields.get("starting_ts"):
        raise InvalidArgument(
            "both startingSeq and startingTimestamp are given: remove one of them"
        )
    if fields.get("schema") and fields.get("columns"):
        raise InvalidArgument("option schema defines the columns: remove option columns")
    return SourceOptions(**fields)


def _spelling(lowered: str) -> str:
    return next(one for one in _SPELLED if one.lower() == lowered)


def _number(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > SEQ_MAX:
        raise InvalidArgument(f"option {key} must be a whole number, not {text!r}")
    return int(text)


def _positive(key: str, text: str) -> int:
    if _number(key, text) < 1:
        raise InvalidArgument(f"option {key} must be at least 1")
    return int(text)


def _topics(key: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    for one in found:
        validation.topic_name(one.replace("*", "x"))
    return found


def _gap(key: str, text: str) -> str:
    lowered = text.lower()
    if lowered not in ("fail", "report", "ignore"):
        raise InvalidArgument(f"option {key} must be fail, report or ignore, not {text!r}")
    return lowered


def _yes(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"option {key} must be true or false, not {text!r}")
    return text.lower() == "true"


def _moment(key: str, text: str) -> int:
    """Milliseconds since 1970, or an ISO 8601 time."""
    if text.isascii() and text.isdigit():
        return _number(key, text)
    import datetime

    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"option {key} must be milliseconds since 1970 or 2026-01-31T12:00:00Z, not {text!r}"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return max(0, round(found.timestamp() * 1000))


def _rows(key: str, text: str) -> str:
    if text.lower() not in ("records", "gaps"):
        raise InvalidArgument(f"option {key} must be records or gaps, not {text!r}")
    return text.lower()


def _mode(key: str, text: str) -> str:
    if text.lower() not in ("permissive", "failfast"):
        raise InvalidArgument(f"option {key} must be permissive or failfast, not {text!r}")
    return text.lower()


def _names(key: str, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


def _deleted(key: str, text: str) -> None:
    if _yes(key, text):
        raise InvalidArgument(
            f"option {key} must be false: a delete is permanent, and the remaining bytes of the "
            "record may be removed at any time"
        )


def _text(key: str, text: str) -> str:
    return text


_READERS: Final[dict[str, Any]] = {
    "path": _text,
    "url": _text,
    "token": _text,
    "topics": _topics,
    "starting_seq": _number,
    "starting_ts": _moment,
    "ending_seq": _number,
    "records_max": _positive,
    "bytes_max": _positive,
    "on_gap": _gap,
    "partition_records": _positive,
    "consumer": _text,
    "skip_corrupt": _yes,
    "starting_offsets": parsed,
    "ending_offsets": parsed,
    "rows": _rows,
    "columns": _names,
    "push_filters": _yes,
    "gap_ledger": _text,
    "schema": _text,
    "mode": _mode,
    "": _deleted,
}
