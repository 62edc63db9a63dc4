"""The interpreted form: every function of the kernel under one name, as in the compiled module."""

from __future__ import annotations

from penstock.codec.kernel_source.checksum import hash_texts, xxh3_64
from penstock.codec.kernel_source.columns import columns
from penstock.codec.kernel_source.element_spans import element_spans
from penstock.codec.kernel_source.frame_encoding import encode_appends, encode_control
from penstock.codec.kernel_source.json_fields import json_fields
from penstock.codec.kernel_source.json_pages import project
from penstock.codec.kernel_source.json_text import (
    are_plain_json,
    first_deep,
    is_plain_text,
    nesting,
    sizes,
)
from penstock.codec.kernel_source.lookup import (
    filter_indices,
    find_tags,
    frame_at,
    frame_ts,
    group_tags,
    join_frames,
    measure,
    measure_some,
    shift_offsets,
)
from penstock.codec.kernel_source.masked_messages import masked_messages
from penstock.codec.kernel_source.packed_records import (
    pack_records,
    split_records,
    texts_of,
)
from penstock.codec.kernel_source.readdressing import readdress
from penstock.codec.kernel_source.record_spans import (
    encode_spans,
    json_spans,
    packed_spans,
    span_sizes,
)
from penstock.codec.kernel_source.scanning import count_frames, resync, scan
from penstock.codec.kernel_source.segment_index import build_index, copy_live, ts_bound

COMPILED = False

__all__ = [
    "COMPILED",
    "are_plain_json",
    "build_index",
    "columns",
    "copy_live",
    "count_frames",
    "element_spans",
    "encode_appends",
    "encode_control",
    "encode_spans",
    "filter_indices",
    "find_tags",
    "first_deep",
    "frame_at",
    "frame_ts",
    "group_tags",
    "hash_texts",
    "is_plain_text",
    "join_frames",
    "json_fields",
    "json_spans",
    "masked_messages",
    "measure",
    "measure_some",
    "nesting",
    "pack_records",
    "packed_spans",
    "project",
    "readdress",
    "resync",
    "scan",
    "shift_offsets",
    "sizes",
    "span_sizes",
    "split_records",
    "texts_of",
    "ts_bound",
    "xxh3_64",
]
