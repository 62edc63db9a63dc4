"""The log's own topics. Callers can neither name nor list them (`validation.is_internal`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.limits import DELAYED_BATCHES_MAX, DELAYED_BYTES_MAX, TOPIC_ID_OWN
from penstock.types import TopicConfig


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """Created when it is first used. `id` is in the range of the log's own topics; None: it takes
    the next id of the callers' topics, as logs of the first version have it."""

    name: str
    config: TopicConfig
    id: int | None


BATCHES: Final = InternalTopic("_batches", TopicConfig(durability="fsync", durable=True), None)
"""Intents of batches over several topics."""

AUDIT: Final = InternalTopic(
    "_audit", TopicConfig(durability="disk", cap_records=1_000_000), TOPIC_ID_OWN
)
"""What was done by those who run the log."""

PROJECTIONS: Final = InternalTopic(
    "_projections", TopicConfig(durability="fsync", durable=True), TOPIC_ID_OWN + 1
)
"""Definitions of tables and features, one record for each change."""

FEATURES: Final = InternalTopic(
    "_features", TopicConfig(durability="fsync", durable=True), TOPIC_ID_OWN + 9
)
"""What is registered in the feature store: the newest record counts."""

DELAYED: Final = InternalTopic(
    "_delayed",
    TopicConfig(
        type="queue",
        durability="fsync",
        durable=True,
        leases_durable=True,
        idempotency_window_ms=86_400_000,
        cap_records=DELAYED_BATCHES_MAX,
        cap_bytes=DELAYED_BYTES_MAX,
        discard="reject",
    ),
    TOPIC_ID_OWN + 2,
)
"""Records whose time has not come, one batch each."""

INTERNAL_TOPICS: Final = (BATCHES, AUDIT, PROJECTIONS, FEATURES, DELAYED)
