"""Chooses the form of the kernel: compiled if it was built, unless PENSTOCK_PURE=1.

The functions are those of `kernel_source`, under the same names.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Final

_COMPILED = "penstock.codec._kernel"
_INTERPRETED = "penstock.codec.kernel_source.interpreted"


def load(pure: bool) -> ModuleType:
    """The kernel in one form. ImportError when the compiled one was never built."""
    return importlib.import_module(_INTERPRETED if pure else _COMPILED)


def _choose() -> ModuleType:
    if os.environ.get("PENSTOCK_PURE") != "1":
        try:
            return load(pure=False)
        except ImportError:
            pass
    return load(pure=True)


if TYPE_CHECKING:
    from penstock.codec import _kernel as _chosen
else:
    _chosen = _choose()

COMPILED: Final[bool] = _chosen.COMPILED
xxh3_64 = _chosen.xxh3_64
hash_texts = _chosen.hash_texts
encode_appends = _chosen.encode_appends
encode_control = _chosen.encode_control
scan = _chosen.scan
count_frames = _chosen.count_frames
resync = _chosen.resync
project = _chosen.project
columns = _chosen.columns
find_tags = _chosen.find_tags
measure = _chosen.measure
measure_some = _chosen.measure_some
filter_indices = _chosen.filter_indices
shift_offsets = _chosen.shift_offsets
join_frames = _chosen.join_frames
readdress = _chosen.readdress
build_index = _chosen.build_index
copy_live = _chosen.copy_live
ts_bound = _chosen.ts_bound
group_tags = _chosen.group_tags
frame_ts = _chosen.frame_ts
frame_at = _chosen.frame_at
sizes = _chosen.sizes
are_plain_json = _chosen.are_plain_json
is_plain_text = _chosen.is_plain_text
nesting = _chosen.nesting
first_deep = _chosen.first_deep
pack_records = _chosen.pack_records
texts_of = _chosen.texts_of
split_records = _chosen.split_records
masked_messages = _chosen.masked_messages
packed_spans = _chosen.packed_spans
json_fields = _chosen.json_fields
json_spans = _chosen.json_spans
element_spans = _chosen.element_spans
span_sizes = _chosen.span_sizes
encode_spans = _chosen.encode_spans
