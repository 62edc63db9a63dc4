"""Random histories of a log, for those who read its directory beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from penstock.engine.engine import Log
from penstock.errors import TopicNotFound
from penstock.types import Record

Step = tuple[Any, ...]
TOPICS = ("a", "b", "c")
TIERED: dict[str, Any] = {"cold_dir": "/cold", "hot_retain_segments": 1, "segment_max_events": 20}
_topics = st.sampled_from(TOPICS)
_some = st.integers(1, 40)

_steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("append"), _topics, _some),
    st.tuples(st.just("append"), _topics, _some),
    st.tuples(st.just("delete_tag"), _topics, st.sampled_from(["x", "y1", "y*"])),
    st.tuples(st.just("delete_before"), _topics, _some),
    st.tuples(st.just("delete_seqs"), _topics, st.lists(_some, min_size=1, max_size=5)),
    st.tuples(st.just("cap"), _topics, st.integers(5, 60)),
    st.tuples(st.just("expire"), _topics),
    st.tuples(st.just("drop"), _topics),
    st.tuples(st.just("checkpoint")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("relocate")),
    st.tuples(st.just("sync")),
)
steps: st.SearchStrategy[list[Step]] = st.lists(_steps, min_size=1, max_size=25)
long_steps: st.SearchStrategy[list[Step]] = st.lists(_steps, min_size=20, max_size=60)


def apply(log: Log, step: Step, pass_time: Callable[[int], object]) -> None:
    """One step. `pass_time` lets so many milliseconds go by."""
    kind, *rest = step
    try:
        match kind:
            case "append":
                topic, count = rest
                log.append(topic, [_record(n) for n in range(count)])
            case "delete_tag":
                log.delete(rest[0], tag=rest[1])
            case "delete_before":
                log.delete(rest[0], before_seq=rest[1])
            case "delete_seqs":
                log.delete(rest[0], seqs=rest[1])
            case "cap":
                log.create(rest[0], cap_records=rest[1])
            case "expire":
                log.create(rest[0], ttl_ms=50)
                pass_time(100)
                log.upkeep()
                log.create(rest[0], ttl_ms=0)
            case "drop":
                log.drop(rest[0])
            case "checkpoint":
                log.checkpoint()
            case "compact":
                log.compact()
            case "relocate":
                if log.core.parts.mover is not None:
                    log.relocate()
            case "sync":
                log.sync()
    except TopicNotFound:
        pass


def _record(n: int) -> Record:
    return Record(
        {"n": n, "text": "ü" * (n % 5)},
        tag=[None, "x", "y1", "y2"][n % 4],
        node="n" if n % 3 else None,
        meta={"m": n} if n % 2 else None,
    )
