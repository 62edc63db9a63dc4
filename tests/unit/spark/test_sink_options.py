"""Options of a writer."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.spark.sink_options import SinkOptions, sink_options

URL = "http://127.0.0.1:4000"


def test_options_have_their_values_whatever_their_case() -> None:
    given = {"URL": URL, "Topic": "a", "writeid": "w-1", "TIMEOUTMS": "5", "token": "secret"}

    found = sink_options(given | {"checkpointLocation": "/x"})

    assert found == SinkOptions(URL, "secret", "a", "w-1", 5)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "option url is missing"),
        ({"url": "nonsense"}, "http://host:port"),
        ({"url": URL, "topik": "a"}, "did you mean topic"),
        ({"url": URL, "mode": "x"}, "unknown option 'mode'"),
        ({"url": URL, "topic": "a b"}, "topic"),
        ({"url": URL, "writeId": "a b"}, "writeId"),
        ({"url": URL, "timeoutMs": "-1"}, "timeoutMs"),
        ({"url": URL, "timeoutMs": "soon"}, "timeoutMs"),
        ({"url": URL, "rowOrder": "random"}, "given or any"),
        ({"url": URL, "verify": "no"}, "true or false"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        sink_options(given)
