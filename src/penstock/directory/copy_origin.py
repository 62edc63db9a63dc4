"""The origin of a copied record in the meta of its copy: the topic, the seq there, the router."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.limits import META_KEYS_MAX

MARK = "_topics_router"
ORIGINAL = "_topics_original_meta"
_encode = msgspec.json.Encoder().encode
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of copies, and their router."""

    router: str
    source: str
    source_id: int


def marked_meta(meta: bytes | None, origin: Origin, seq: int) -> bytes:
    """The meta of the copy of record `seq`. A meta that is no object is kept beside the mark."""
    mark = {
        "idempotency_key": f"router:{origin.router}:{origin.source_id}:{origin.source_id}:{seq}",
        "router": origin.router,
        "source_topic": origin.source,
        "source_topic_id": origin.source_id,
        "source_epoch": origin.source_id,
        "source_seq": seq,
    }
    if meta is None:
        return _encode({MARK: mark})
    if meta[:1] == b"{":
        fields: dict[str, object] = dict(_OBJECT.decode(meta))
        if len(fields) < META_KEYS_MAX or MARK in fields:
            fields[MARK] = mark
            return _encode(fields)
    return _encode({ORIGINAL: msgspec.Raw(meta), MARK: mark})
