"""The options of an append, declared once.

The embedded log and the clients take them as keywords, the server as members of a JSON body or of a
WebSocket message, and the command line as flags. All of them pass the same value to the engine. To
add an option, declare it here and use it where it has its effect, as in `engine/append.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

import msgspec
from msgspec import Meta

from penstock import limits
from penstock.errors import InvalidArgument

_U64_MAX: Final = (1 << 64) - 1


def _number(description: str, most: int) -> Meta:
    """A number from 0. The server checks the maximum where the option takes effect, with a message
    and a code of its own."""
    return Meta(ge=0, description=description, extra_json_schema={"maximum": most})


class AppendOptions(msgspec.Struct, kw_only=True, frozen=True):
    """How an append is done, the same over every protocol."""

    idempotency_key: (
        Annotated[
            str,
            Meta(
                description="A repeated append with the same key adds nothing.",
                extra_json_schema={"minLength": 1, "maxLength": limits.KEY_BYTES_MAX},
            ),
        ]
        | None
    ) = None
    create: Annotated[bool, Meta(description="Create the topic if it is missing.")] | None = None
    expected_seq: (
        Annotated[int, _number("Append only if this is the topic's newest seq.", _U64_MAX)] | None
    ) = None
    deliver_at: (
        Annotated[int, _number("Visible from this time on, in ms since 1970.", limits.TIME_MS_MAX)]
        | None
    ) = None
    delay_ms: Annotated[int, _number("Visible after this delay.", limits.DELAY_MS_MAX)] | None = (
        None
    )
    cron: Annotated[str, Meta(description="Deliver repeatedly, as in '*/5 * * * *'.")] | None = None
    timezone: Annotated[str, Meta(description="Time zone of the schedule. [UTC]")] | None = None

    def members(self) -> dict[str, Any]:
        """The given options by their names, as a request has them."""
        fields = msgspec.structs.asdict(self).items()
        return {name: value for name, value in fields if value is not None}

    @property
    def is_unconditional(self) -> bool:
        """True when the append does not depend on the state of the topic: it may then share a
        commit with others."""
        return self.expected_seq is None

    @property
    def is_for_later(self) -> bool:
        """True when the append gives its records a time."""
        return (
            self.delay_ms is not None
            or self.deliver_at is not None
            or self.cron is not None
            or self.timezone is not None
        )


class AppendKeywords(TypedDict, total=False):
    """The same options as keywords of a verb. A test compares both declarations."""

    idempotency_key: str | None
    create: bool
    expected_seq: int | None
    deliver_at: int | None
    delay_ms: int | None
    cron: str | None
    timezone: str | None


NO_OPTIONS: Final = AppendOptions()
_OF_TIME: Final = ("deliver_at", "delay_ms", "cron", "timezone")


def checked(given: AppendKeywords) -> AppendOptions:
    """The options of a call, or InvalidArgument; an unknown name is a TypeError, as in any call."""
    if not given:
        return NO_OPTIONS
    options = AppendOptions(**given)
    fields: dict[str, Any] = msgspec.structs.asdict(options)
    try:
        msgspec.convert(fields, AppendOptions)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        expected = problem.removeprefix("Expected ").partition(", got")[0]
        raise InvalidArgument(f"invalid {name} {fields[name]!r}: expected {expected}") from None
    for name, most in _MAXIMA.items():
        if (fields[name] or 0) > most:
            raise InvalidArgument(f"invalid {name} {fields[name]!r}: expected at most {most}")
    return options


def refuse_in_batch(given: Mapping[str, object]) -> None:
    """For keywords that `append_many` does not have: InvalidArgument for one of time, which every
    other append has."""
    for name, value in given.items():
        if name in _OF_TIME:
            if value is None:
                continue
            raise InvalidArgument(
                f"append_many takes no {name} ({value!r}): a batch over several topics cannot be "
                "delayed; append to each topic by itself"
            )
        raise TypeError(f"append_many() got an unexpected keyword argument {name!r}")


def _maxima() -> dict[str, int]:
    """The largest value of each option that is a number."""
    properties = msgspec.json.schema(AppendOptions)["$defs"]["AppendOptions"]["properties"]
    return {
        name: one["maximum"]
        for name, schema in properties.items()
        for one in schema["anyOf"]
        if "maximum" in one
    }


_MAXIMA: Final = _maxima()
