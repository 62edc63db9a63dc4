"""Chooses the form of the fold kernel: the codec's, compiled if both were built.

PENSTOCK_PURE=1 asks for the interpreted form of both.

The functions of `chosen` are those of `features/kernel_source`. Operators look them up at each
call, `fold_kernel.chosen.fold_counts(…)`, so that a test can try both forms.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.codec import kernel

_COMPILED = "penstock.features._fold_kernel"
_INTERPRETED = "penstock.features.kernel_source.interpreted"


def load(pure: bool) -> ModuleType:
    """The kernel in one form. ImportError when the compiled one was never built."""
    return importlib.import_module(_INTERPRETED if pure else _COMPILED)


def _choose() -> ModuleType:
    if kernel.COMPILED:
        try:
            return load(pure=False)
        except ImportError:
            pass
    return load(pure=True)


if TYPE_CHECKING:
    from penstock.features import _fold_kernel

    chosen = _fold_kernel
else:
    chosen = _choose()
