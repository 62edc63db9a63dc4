"""The categories of errors and the policy for each. Pure."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from penstock.sender.connect_string import ConnectOptions, Policy
from penstock.wire.sender_protocol import ReplyStatus


class Category(enum.StrEnum):
    """Why a frame or the connection was rejected, or a frame was lost."""

    SCHEMA_MISMATCH = "schema_mismatch"
    WRITE_ERROR = "write_error"
    PARSE_ERROR = "parse_error"
    INTERNAL_ERROR = "internal_error"
    SECURITY_ERROR = "security_error"
    PROTOCOL_VIOLATION = "protocol_violation"
    SPOOL_DAMAGE = "spool_damage"


class ErrorPolicy(enum.StrEnum):
    """DROP: keep the frame as a dead letter and go on. HALT: stop sending. RETRY: send the frame
    again. LOSE: the frame is lost; no connect string can choose this."""

    DROP = "drop"
    HALT = "halt"
    RETRY = "retry"
    LOSE = "lose"


class SenderError(msgspec.Struct, frozen=True):
    """The argument of the error handler. `fsn` is the number of the frame, -1 for an error of the
    connection; `sender_id` is the slot, which may be a slot that is drained for another sender."""

    category: Category
    act: ErrorPolicy
    message: str
    fsn: int = -1
    status: int = -1
    host: str = ""
    topic: str = ""
    sender_id: str = ""


_CATEGORIES: Final = {
    ReplyStatus.SCHEMA: Category.SCHEMA_MISMATCH,
    ReplyStatus.PARSE: Category.PARSE_ERROR,
    ReplyStatus.INTERNAL: Category.INTERNAL_ERROR,
    ReplyStatus.SECURITY: Category.SECURITY_ERROR,
    ReplyStatus.WRITE: Category.WRITE_ERROR,
}
_DEFAULTS: Final = {
    Category.SCHEMA_MISMATCH: ErrorPolicy.DROP,
    Category.WRITE_ERROR: ErrorPolicy.DROP,
    Category.PARSE_ERROR: ErrorPolicy.HALT,
    Category.INTERNAL_ERROR: ErrorPolicy.HALT,
    Category.SECURITY_ERROR: ErrorPolicy.HALT,
    Category.PROTOCOL_VIOLATION: ErrorPolicy.HALT,
}


def category_of(status: int) -> Category:
    try:
        return _CATEGORIES[ReplyStatus(status)]
    except (ValueError, KeyError):
        return Category.INTERNAL_ERROR


def act_for(options: ConnectOptions, category: Category) -> ErrorPolicy:
    """The policy of the connect string; a category's own key wins over `on_server_error`."""
    if category is Category.PROTOCOL_VIOLATION:
        return ErrorPolicy.HALT  # the connect string has no key for it
    if category is Category.SPOOL_DAMAGE:
        return ErrorPolicy.LOSE
    narrow: dict[Category, Policy] = {
        Category.SCHEMA_MISMATCH: options.on_schema_error,
        Category.WRITE_ERROR: options.on_write_error,
        Category.PARSE_ERROR: options.on_parse_error,
        Category.INTERNAL_ERROR: options.on_internal_error,
        Category.SECURITY_ERROR: options.on_security_error,
    }
    for word in (narrow[category], options.on_server_error):
        if word != "auto":
            return ErrorPolicy(word)
    return _DEFAULTS[category]
