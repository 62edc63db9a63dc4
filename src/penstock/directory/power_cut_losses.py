"""Seqs that a power cut or a failed sync may have taken: acknowledged, but not on disk. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.entries import SeqsLost
from penstock.storage.wal.recovery import WalFindings
from penstock.topics.topic import Topic
from penstock.types import Cause


def lost_seqs(topics: Iterable[Topic], verdict: WalFindings) -> list[SeqsLost]:
    """Reserved seqs may have been acknowledged and lost: never assign them again, and report them
    to readers. The writes of a killed process are in the page cache, so only RAM-only topics lose
    records by a kill."""
    lost: list[SeqsLost] = []
    for topic in topics:
        at_risk = verdict.may_have_lost_tail and topic.config.durability != "fsync"
        if topic.config.durability == "ephemeral":
            at_risk = not verdict.was_closed
        if at_risk and topic.ceiling > topic.head:
            lost.append(SeqsLost(topic.id, topic.head + 1, topic.ceiling, Cause.LOST))
    return lost
