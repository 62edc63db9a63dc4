"""What a topic tells its readers is gone: ranges of seqs in order, none over another.

What was told first stays: a later loss fills the seqs between that nobody was told of yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.types import LossRange


def added(losses: list[LossRange], first: int, last: int, cause: int) -> list[LossRange]:
    """`losses` with first..last told, too."""
    new = list(_untold(losses, first, last, int(cause)))
    return list(_joined(sorted([*losses, *new]))) if new else losses


def ordered(losses: Iterable[LossRange]) -> list[LossRange]:
    """The same, whatever order they came in and however they overlap."""
    found: list[LossRange] = []
    for loss in losses:
        found = added(found, *_fields(loss))
    return found


def _untold(losses: list[LossRange], first: int, last: int, cause: int) -> Iterator[LossRange]:
    for loss in losses:
        if loss.last < first:
            continue
        if loss.first > last:
            break
        if loss.first > first:
            yield LossRange(first, loss.first - 1, cause)
        first = loss.last + 1
    if first <= last:
        yield LossRange(first, last, cause)


def _joined(losses: list[LossRange]) -> Iterator[LossRange]:
    """Neighbours of one cause are one."""
    first, last, cause = _fields(losses[0])
    for loss in losses[1:]:
        if loss.first == last + 1 and loss.cause == cause:
            last = loss.last
            continue
        yield LossRange(first, last, cause)
        first, last, cause = _fields(loss)
    yield LossRange(first, last, cause)


def _fields(loss: LossRange) -> tuple[int, int, int]:
    return loss.first, loss.last, loss.cause
