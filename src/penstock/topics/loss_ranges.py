"""The losses of a topic that readers are told of: ordered ranges of seqs without overlaps.

Recorded ranges stay: a later loss fills only the seqs between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.types import LossRange


def added(losses: list[LossRange], first: int, last: int, cause: int) -> list[LossRange]:
    """`losses` with first..last added."""
    new = list(_untold(losses, first, last, int(cause)))
    return list(_joined(sorted([*losses, *new]))) if new else losses


def ordered(losses: Iterable[LossRange]) -> list[LossRange]:
    """The same for ranges in any order, which may overlap."""
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
    """Join adjacent ranges of the same cause."""
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
