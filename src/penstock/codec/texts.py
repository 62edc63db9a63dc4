"""JSON texts by the thousand: are they what they say? Pure."""

from __future__ import annotations

import msgspec

from penstock.codec import kernel

_RAW = msgspec.json.Decoder(msgspec.Raw)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


def are_json(texts: list[bytes]) -> bool:
    """Are all of them JSON in ASCII, without blanks around? If not, look at each.

    They are parsed with one call, as the elements of one array. Counting the elements is not
    enough: `1,2`, `[3` and `4]` make three of them. That every element is as long as its text
    shows that they begin and end at the same places.
    """
    try:
        if not kernel.COMPILED or len(texts) < 2:  # comparing sizes would cost more than it saves
            return bool(list(map(_RAW.decode, texts))) and all(map(bytes.isascii, texts))
        joined = kernel.join_array(texts)
        return kernel.same_sizes(_RAWS.decode(joined), texts) and joined.isascii()
    except (msgspec.DecodeError, RecursionError):
        return False
