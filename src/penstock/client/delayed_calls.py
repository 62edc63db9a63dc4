"""The calls of the verbs of delayed records, as `calls` has them for topics."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from penstock.client import answers, error_answers
from penstock.client.calls import Call, Steps, topic_path
from penstock.client.http import HttpResponse
from penstock.errors import AlreadyDelivered, DelayedNotFound, InvalidArgument
from penstock.types import DelayedInfo

_PAGE_MAX = 1000
_U64_MAX = (1 << 64) - 1


class _Row(msgspec.Struct):
    id: int
    deliver_at: int
    count: int
    size: int


class _Page(msgspec.Struct):
    topic: str
    delayed: list[_Row]
    next_after: int | None = None


def infos(topic: str, after: int, limit: int) -> Steps[list[DelayedInfo]]:
    """As many pages of the list as it takes."""

    def parse(response: HttpResponse, at: str) -> _Page:
        return answers.decoded(response, _Page, at)

    if not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
    found: list[DelayedInfo] = []
    next_after: int | None = _id(after)
    while next_after is not None and len(found) < limit:
        asked = {"after": next_after, "limit": min(_PAGE_MAX, limit - len(found))}
        page: _Page = yield Call("GET", f"{topic_path(topic, 'delayed')}?{urlencode(asked)}", parse)
        found += [
            DelayedInfo(one.id, page.topic, one.deliver_at, one.count, one.size)
            for one in page.delayed
        ]
        next_after = page.next_after
    return found


def cancel_one(topic: str, delayed_id: int) -> Call[None]:
    """Not repeatable: a second attempt would say that the first found nothing."""

    def parse(response: HttpResponse, at: str) -> None:
        answers.decoded(response, answers.Deleted, at)

    target = topic_path(topic, "delayed", str(_id(delayed_id)))
    return Call("DELETE", target, parse, is_change=True, is_repeatable=False)


def cancel(topic: str, ids: Sequence[int]) -> Steps[int]:
    """One call for each. Those that are not delayed are not counted."""

    def parse(response: HttpResponse, at: str) -> bool:
        if response.status == 200:
            return answers.decoded(response, answers.Deleted, at).deleted
        error = error_answers.error_of(response, at)
        if isinstance(error, (DelayedNotFound, AlreadyDelivered)):
            return False
        raise error

    count = 0
    for delayed_id in dict.fromkeys(ids):
        count += yield Call(
            "DELETE",
            topic_path(topic, "delayed", str(_id(delayed_id))),
            parse,
            is_change=True,
            is_repeatable=False,
            accepts=frozenset((404, 409)),
        )
    return count


def _id(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _U64_MAX:
        raise InvalidArgument(
            f"invalid id of a delayed batch {value!r}: expected a number from 0 to 2^64-1"
        )
    return value
