"""The interpreted form: every function of the kernel under one name, as in the compiled module."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from penstock.features.kernel_source import (
    baseline_folds,
    category_folds,
    cell_table,
    chains,
    counting_folds,
    decay_folds,
    distinct_folds,
    geo_folds,
    histogram_folds,
    key_table,
    list_folds,
    row_blocks,
    row_tables,
    sample_folds,
    scalar_folds,
    trend_folds,
    velocity_folds,
)

COMPILED = False

PARTS: tuple[ModuleType, ...] = (
    scalar_folds,
    list_folds,
    chains,
    baseline_folds,
    category_folds,
    decay_folds,
    geo_folds,
    histogram_folds,
    trend_folds,
    velocity_folds,
    key_table,
    cell_table,
    row_blocks,
    row_tables,
    distinct_folds,
    counting_folds,
    sample_folds,
)


def over_memoryviews(function: Callable[..., Any]) -> Callable[..., Any]:
    """Elements of a memoryview are Python numbers, those of an array slow numbers of numpy."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*map(memoryview_of, arguments))

    return call


def memoryview_of(argument: Any) -> Any:
    """A memoryview of an array of numbers; anything else as it is."""
    if isinstance(argument, np.ndarray) and argument.dtype != np.object_:
        return memoryview(argument)
    return argument


__all__ = ["COMPILED"]
for _part in PARTS:
    for _name, _function in vars(_part).items():
        is_own = isinstance(_function, FunctionType) and _function.__module__ == _part.__name__
        if is_own and not _name.startswith("_"):
            globals()[_name] = over_memoryviews(_function)
            __all__ += [_name]
