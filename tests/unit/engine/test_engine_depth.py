"""How deep JSON may nest in what is appended, and that what is stored deeper is still served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.engine import batch_intents
from penstock.engine.atomic_batches import TopicAppend
from penstock.engine.batch import Batch, from_columns
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument
from penstock.types import Record
from tests.unit import nesting
from tests.unit.engine.support import everything

STORED = 300  # deeper than anything that is taken, and no trouble to any interpreter


def old_batch() -> Batch:
    """As an earlier version took it."""
    text = nesting.arrays(STORED)
    return from_columns([text], [b'{"m":%b}' % text], None, None, are_valid=True)


def with_old_record(log: Log, topic: str, **config: Any) -> None:
    log.create(topic, **config)
    handle = log.core.catalogue.find(topic)
    assert handle is not None
    log.core.append_parts([TopicAppend(handle, old_batch())])


@pytest.mark.parametrize("shape", nesting.SHAPES)
def test_a_text_is_taken_up_to_the_limit_and_refused_one_level_deeper(
    memory_log: Log, shape: str
) -> None:
    good, bad = (nesting.SHAPES[shape](depth) for depth in (nesting.MOST, nesting.MOST + 1))
    refused = [[bad], [1, bad], [b"1", bad], [Record(bad)], [Record(1, meta=bad)]]

    for records in refused:
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            memory_log.append("t", records)
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            memory_log.append_many([("t", [1]), ("u", records)])
    memory_log.append("t", [good, Record(good, meta=good)])
    memory_log.append_many([("u", [good])])

    assert everything(memory_log, "t") == [json.loads(good)] * 2
    assert everything(memory_log, "u") == [json.loads(good)]


def test_a_value_is_taken_up_to_the_limit_and_refused_one_level_deeper(memory_log: Log) -> None:
    good, bad = nesting.value(nesting.MOST), nesting.value(nesting.MOST + 1)
    for records in ([bad], [good, bad], [Record(bad)], [Record(1, meta=bad)]):
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            memory_log.append("t", records)

    memory_log.append("t", [good, Record(good, meta=good)])

    assert everything(memory_log, "t") == [good, good]


def test_a_value_that_no_interpreter_encodes_is_refused_by_the_same_limit(memory_log: Log) -> None:
    endless = nesting.value(200_000)

    for records in ([endless], [1, Record(endless)], [Record(1, meta=endless)]):
        with pytest.raises(InvalidArgument, match="at most 128"):
            memory_log.append("t", records)


# What is stored.


def test_records_that_are_stored_deeper_are_read_and_copied(memory_log: Log) -> None:
    text = nesting.arrays(STORED)
    memory_log.create("t")
    memory_log.create_router("r", "t", "copy")
    memory_log.create_router("once", "t", "stamped", exactly_once=True)

    with_old_record(memory_log, "t")

    for topic in ("t", "copy", "stamped"):
        [record] = memory_log.read(topic).records
        assert record.data == json.loads(text)
        assert record.meta["m"] == json.loads(text)
        assert b'"data":' + text in memory_log.read_json(topic, 0).records


def test_jobs_that_are_stored_deeper_are_claimed(memory_log: Log) -> None:
    with_old_record(memory_log, "q", type="queue")

    [job] = memory_log.claim("q", "node").jobs

    assert job.data == json.loads(nesting.arrays(STORED))


def test_a_batch_over_several_topics_that_was_promised_deeper_is_kept(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.core.catalogue.find("t")
    assert handle is not None

    batch = batch_intents._batch(batch_intents.promise_of(handle, old_batch()))

    assert (batch.datas, batch.metas) == (old_batch().datas, old_batch().metas)
