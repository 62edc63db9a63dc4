"""Append without waiting: the answer comes by callback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.append_options import AppendOptions
from penstock.engine.core import LogCore
from penstock.errors import InvalidArgument, PenstockError
from penstock.types import Appended


def submit(
    core: LogCore,
    topic: str,
    records: Sequence[Any],
    done: Callable[[Appended | PenstockError], None],
    tag: str | None,
    node: str | None,
    options: AppendOptions,
) -> None:
    """Queue the append of the caller's values; `done` is called with the answer."""
    if options.create:
        raise InvalidArgument("submit creates no topic: call create first, or use append")
    batch, handle = core.batch_of(records, tag, node, options), core.catalogue.get(topic)
    core.submit_to(handle, batch, lambda outcome: done(core.answer(outcome, batch)), options)
