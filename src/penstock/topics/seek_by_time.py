"""Where a read begins that starts at a point in time. Pure."""

from __future__ import annotations

from bisect import bisect_left

from penstock.topics.topic import Topic


def seek(topic: Topic, ts: int) -> int:
    """The `after` of a read that begins with the first record not older than `ts`, live or dead:
    the seq before it. The head when all are older. Call with the topic's lock held."""
    spans = topic.spans
    at = bisect_left(spans, ts, key=lambda span: span.run.last_ts)  # times never fall
    for span in spans[at:]:
        index = span.run.older_than(span.start, span.count, ts)
        if index < span.count:
            return span.first + index - 1
        # The end of the run, which is younger, belongs to the next span, or is dead.
    return topic.head
