"""The members of events, as JSON."""

from __future__ import annotations

import json

from penstock.server import events
from penstock.types import Gap, JsonPage


def test_the_members_of_an_event_are_json() -> None:
    gap = Gap(1, 4, "cap", 4, 5, 9)
    page = JsonPage(b'[{"$seq":5}]', 1, None, 6, 9, 5, False, 2)

    assert json.loads(b"{%b}" % events.record_fields("t", 4, page)) == {
        "topic": "t",
        "from_seq": 4,
        "to_seq": 6,
        "head_seq": 9,
        "records": [{"$seq": 5}],
    }
    assert json.loads(b"{%b}" % events.tombstone_fields("t", gap, "ttl")) == {
        "topic": "t",
        "reason": "ttl",
        "gap_from": 1,
        "gap_to": 4,
        "earliest_seq": 5,
        "head_seq": 9,
    }
    assert json.loads(b"{%b}" % events.head_fields("t", 9)) == {"topic": "t", "head_seq": 9}
    assert json.loads(b"{%b}" % events.deleted_fields("t"))["reason"] == "deleted"
