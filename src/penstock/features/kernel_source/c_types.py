"""The limits of integers. The types and functions of C are in c_types.pxd."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython

if not cython.compiled:
    INT32_MIN = -(1 << 31)
    INT64_MIN = -(1 << 63)
    INT64_MAX = (1 << 63) - 1
