"""Dead letters of queues: the copy of a job that was delivered too often.

`engine/queues.py` decides which jobs move and deletes them from their queue afterwards;
`engine/redrive.py` moves dead letters back.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.engine.job_reading import RawJob
from penstock.engine.lease_options import meta_of
from penstock.errors import Overloaded, UsageError

_encode = msgspec.json.Encoder().encode


class QueueDeadLetters:
    """Safe from several threads: it has no state."""

    def __init__(self, append: Callable[[str, Batch], object]) -> None:
        self._append = append  # to a dead-letter topic, durably, once for each key

    def copy(self, handle: Handle, job: RawJob) -> bool:
        """Append a job to the dead letters of its queue. May be repeated: the key makes a second
        copy a no-op. False when the dead letters do not take it now."""
        topic = handle.topic
        if topic.config.dead_letter is None:
            return False
        meta = _encode(
            meta_of(job)
            | {
                "$dead_letter_from": topic.name,
                "$dead_letter_deliveries": str(topic.config.max_deliveries),
                "$dead_letter_src_seq": str(job.seq),
            }
        )
        data = bytes(job.data)
        key = f"dead:{topic.id}:{job.seq}"
        if job.seq in topic.queue.crons:  # it may become a dead letter again
            key += f":{handle.dead_lettered}"
        # Built here and not checked: an accepted record is not refused for the added meta.
        batch = Batch(
            [data],
            len(data) + len(meta),
            [meta],
            [job.tag.encode()] if job.tag else None,
            [job.node.encode()] if job.node else None,
            key=key.encode(),
        )
        try:
            self._append(topic.config.dead_letter, batch)
        except (UsageError, Overloaded):
            return False
        return True
