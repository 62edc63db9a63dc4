"""`push`: one event, or the events that arrived together, with one commit."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.compat.beava.bodies import has_control_characters
from penstock.compat.beava.replies import BeavaError
from penstock.errors import InvalidArgument, PenstockError, UsageError
from penstock.feature_types import Pushed, PushSync
from penstock.server.adapters import FeatureService

_UNDECLARED: Final = {
    "event_time": "unknown_field_event_time_v0",
    "event_time_ms": "unknown_field_event_time_v0",
}


class Acked(msgspec.Struct, frozen=True, gc=False):
    """An event that is in the log. `is_replay`: it was there before."""

    seq: int
    version: int
    is_replay: bool = False


class Pusher:
    """Event loop only."""

    def __init__(self, features: FeatureService) -> None:
        self._features = features

    async def push(self, event: str, data: bytes, sync: PushSync | None = None) -> Acked:
        """Append one event, which is JSON."""
        (found,) = await self.push_many(event, [data], sync)
        if isinstance(found, BeavaError):
            raise found
        return found

    async def push_all(self, event: str, datas: list[bytes]) -> Acked:
        """Append events, all or none; the answer of the last one."""
        self._known(event)
        for data in datas:
            error = self._complaint(event, data)
            if error is not None:
                raise error
        pushed = await self._appended(event, datas, None)
        return Acked(pushed.last_seq, pushed.version, is_replay=not pushed.count)

    async def push_many(
        self, event: str, datas: Sequence[bytes], sync: PushSync | None = None
    ) -> list[Acked | BeavaError]:
        """Append events, each for itself: the good ones of them in one commit."""
        try:
            pusher = self._known(event)
        except BeavaError as error:
            return [error] * len(datas)
        if pusher.is_deduped:
            return await self._apart(event, datas, sync)
        if not any([b"\\" in data and has_control_characters(data) for data in datas]):
            try:
                pushed = await self._appended(event, list(datas), sync)
            except BeavaError as error:
                if error.status >= 500:
                    return [error] * len(datas)
            else:
                first, version = pushed.first_seq, pushed.version
                return [Acked(seq, version) for seq in range(first, first + len(datas))]
        return await self._good_ones(event, datas, sync)

    async def _apart(
        self, event: str, datas: Sequence[bytes], sync: PushSync | None
    ) -> list[Acked | BeavaError]:
        """Of events of which one may be the repetition of the one before: they are looked up one
        by one, and wait for the log together."""
        begun = [await self._begun(event, data, sync) for data in datas]
        return [one if isinstance(one, BeavaError) else await self._acked(one) for one in begun]

    async def _begun(
        self, event: str, data: bytes, sync: PushSync | None
    ) -> Awaitable[Pushed] | BeavaError:
        error = self._complaint(event, data)
        if error is not None:
            return error
        try:
            return await self._features.begin_push(event, [data], sync)
        except PenstockError as refusal:
            return self._refusal(refusal)

    async def _acked(self, begun: Awaitable[Pushed]) -> Acked | BeavaError:
        try:
            pushed = await begun
        except PenstockError as refusal:
            return self._refusal(refusal)
        return Acked(pushed.first_seq, pushed.version, is_replay=not pushed.count)

    async def _good_ones(
        self, event: str, datas: Sequence[bytes], sync: PushSync | None
    ) -> list[Acked | BeavaError]:
        """Of events that cannot be appended together, those that are not refused."""
        complaints = [self._complaint(event, data) for data in datas]
        good = [data for data, one in zip(datas, complaints, strict=True) if one is None]
        if len(good) == len(datas):  # one of them is too long, or all together
            return [await self._alone(event, data, sync) for data in datas]
        acked = iter(await self.push_many(event, good, sync) if good else ())
        return [next(acked) if one is None else one for one in complaints]

    async def _alone(self, event: str, data: bytes, sync: PushSync | None) -> Acked | BeavaError:
        error = self._complaint(event, data)
        if error is not None:
            return error
        try:
            pushed = await self._appended(event, [data], sync)
        except BeavaError as refusal:
            return refusal
        return Acked(pushed.first_seq, pushed.version, is_replay=not pushed.count)

    async def _appended(self, event: str, datas: list[bytes], sync: PushSync | None) -> Pushed:
        try:
            return await self._features.push(event, datas, sync)
        except PenstockError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: PenstockError) -> BeavaError:
        if isinstance(error, UsageError):  # too long, or the event type was changed in between
            return self._refused("invalid_event", reason=str(error))
        return self._refused("wal_unavailable", 503, reason=str(error))

    def _known(self, event: str) -> Any:
        """The pusher of an event."""
        store = self._features.store
        if event not in store.definition.events:
            raise self._refused("event_not_found", 404)
        return store.pusher(event)

    def _complaint(self, event: str, data: bytes) -> BeavaError | None:
        """Why an event is refused, in beava's order of checks; None if it is not."""
        if has_control_characters(data):
            return self._refused("control_character_in_string")
        try:
            given = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._refused("invalid_event", reason=str(error))
        if not isinstance(given, Mapping):
            return self._refused("invalid_event", reason="expected a JSON object")
        declared = self._features.store.definition.events.get(event)
        if declared is None:  # it was removed in between
            return self._refused("event_not_found", 404)
        for name in given:
            if name not in declared.fields:
                code = _UNDECLARED.get(name, "unknown_field_v0")
                return self._refused(code, reason=f"event {event!r} has no field {name[:80]!r}")
        try:
            self._features.store.pusher(event).checked([data])
        except InvalidArgument as error:
            return self._refused("invalid_event", reason=str(error))
        return None

    def _refused(self, code: str, status: int = 400, **members: object) -> BeavaError:
        return BeavaError(status, code, self._features.store.version, **members)
