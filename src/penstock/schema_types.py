"""Types whose bounds a JSON Schema states. Decoding does not check these bounds:
`topics/validation.py` does, with its own messages."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from penstock import limits

U64 = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": (1 << 64) - 1})]
Share = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
RetryDelay = Annotated[
    int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.NACK_DELAY_MS[1]})
]
TopicName = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,254}$",
            "maxLength": limits.TOPIC_NAME_CHARS_MAX,
        }
    ),
]
RouterName = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:>\-]{0,254}$",
            "maxLength": limits.TOPIC_NAME_CHARS_MAX,
        }
    ),
]
