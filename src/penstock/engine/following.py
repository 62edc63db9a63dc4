"""Follow a topic on the caller's thread: every record, then each new one when it is committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from penstock.engine import read
from penstock.engine.core import LogCore
from penstock.types import Gap, Record
from penstock.verb_keywords import FollowKeywords


def follow(
    core: LogCore,
    topic: str,
    after: int,
    options: FollowKeywords,
) -> Iterator[Record | Gap]:
    """Ends when the topic is dropped or the log closed, or after `timeout_s` without a record or
    gap. In a child that was forked meanwhile, `core` raises Closed."""
    handle = core.readable(topic, after)
    wanted = read.options(None, options.get("node"), None, options.get("tag"))
    timeout_s = options.get("timeout_s")
    wake_lock = threading.RLock()  # taken as such: see `Shard`
    wake = threading.Condition(wake_lock)

    def notify() -> None:
        with wake_lock:
            wake.notify_all()

    handle.listen(notify)  # before the first read, so that nothing is missed in between
    try:
        while not handle.is_dropped and not core.catalogue.is_closed:
            core.catalogue.refresh(handle)
            page = read.read(handle, after, None, wanted)
            if page.gap is not None:
                yield page.gap
            yield from page.records
            after = page.next_seq
            clock = core.parts.clock
            with wake_lock:
                if handle.head > after or handle.is_dropped or core.catalogue.is_closed:
                    continue
                if not clock.wait(wake, timeout_s):
                    return
    finally:
        handle.unlisten(notify)
