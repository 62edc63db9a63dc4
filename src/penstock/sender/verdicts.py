"""What a refusal means, and what is done about it. Pure."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from penstock.sender.profile import Policy, Profile
from penstock.wire.sending import Status


class Category(enum.StrEnum):
    """Why a frame, or the sender itself, was refused; or how it was lost."""

    SCHEMA_MISMATCH = "schema_mismatch"
    WRITE_ERROR = "write_error"
    PARSE_ERROR = "parse_error"
    INTERNAL_ERROR = "internal_error"
    SECURITY_ERROR = "security_error"
    PROTOCOL_VIOLATION = "protocol_violation"
    SPOOL_DAMAGE = "spool_damage"


class Act(enum.StrEnum):
    """What follows: put the frame aside and go on, stop, or try again; or go on although the frame
    is gone, which nobody chooses."""

    DROP = "drop"
    HALT = "halt"
    RETRY = "retry"
    LOSE = "lose"


class SenderError(msgspec.Struct, frozen=True):
    """One refusal or loss, as the error handler gets it. `fsn` is the frame, or -1 for the
    connection; `sender_id` is the slot it is of, which may be one that is drained for another."""

    category: Category
    act: Act
    message: str
    fsn: int = -1
    status: int = -1
    host: str = ""
    topic: str = ""
    sender_id: str = ""


_CATEGORIES: Final = {
    Status.SCHEMA: Category.SCHEMA_MISMATCH,
    Status.PARSE: Category.PARSE_ERROR,
    Status.INTERNAL: Category.INTERNAL_ERROR,
    Status.SECURITY: Category.SECURITY_ERROR,
    Status.WRITE: Category.WRITE_ERROR,
}
_DEFAULTS: Final = {
    Category.SCHEMA_MISMATCH: Act.DROP,
    Category.WRITE_ERROR: Act.DROP,
    Category.PARSE_ERROR: Act.HALT,
    Category.INTERNAL_ERROR: Act.HALT,
    Category.SECURITY_ERROR: Act.HALT,
    Category.PROTOCOL_VIOLATION: Act.HALT,
}


def category_of(status: int) -> Category:
    try:
        return _CATEGORIES[Status(status)]
    except (ValueError, KeyError):
        return Category.INTERNAL_ERROR


def act_for(profile: Profile, category: Category) -> Act:
    """As the connect string has it; the narrower key wins over `on_server_error`."""
    if category is Category.PROTOCOL_VIOLATION:
        return Act.HALT  # there is no choice
    if category is Category.SPOOL_DAMAGE:
        return Act.LOSE
    narrow: dict[Category, Policy] = {
        Category.SCHEMA_MISMATCH: profile.on_schema_error,
        Category.WRITE_ERROR: profile.on_write_error,
        Category.PARSE_ERROR: profile.on_parse_error,
        Category.INTERNAL_ERROR: profile.on_internal_error,
        Category.SECURITY_ERROR: profile.on_security_error,
    }
    for word in (narrow[category], profile.on_server_error):
        if word != "auto":
            return Act(word)
    return _DEFAULTS[category]
