"""Chooses the form of the kernel: compiled if it was built, unless PENSTOCK_PURE=1.

The functions are those of `_kernel.py`, under the same names.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

_PURE_NAME = "penstock.codec._kernel_pure"


def load(pure: bool) -> ModuleType:
    """The kernel in one form. ImportError when the compiled one was never built."""
    if pure:
        return _interpreted()
    module = importlib.import_module("penstock.codec._kernel")
    if not module.COMPILED:
        raise ImportError("penstock.codec._kernel is not compiled here")
    return module


def _interpreted() -> ModuleType:
    """The source under another name, so that both forms can be loaded side by side."""
    source = Path(__file__).with_name("_kernel.py")
    if not source.is_file():  # out of a zip, where nothing compiled can be loaded
        return importlib.import_module("penstock.codec._kernel")
    if _PURE_NAME not in sys.modules:
        loader = SourceFileLoader(_PURE_NAME, str(source))
        spec = spec_from_loader(_PURE_NAME, loader)
        if spec is None:
            raise ImportError("the kernel's source is missing", name=_PURE_NAME)
        module = module_from_spec(spec)
        loader.exec_module(module)
        sys.modules[_PURE_NAME] = module
    return sys.modules[_PURE_NAME]


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
lay_records = _chosen.lay_records
texts_of = _chosen.texts_of
split_records = _chosen.split_records
weigh_laid = _chosen.weigh_laid
encode_laid = _chosen.encode_laid
