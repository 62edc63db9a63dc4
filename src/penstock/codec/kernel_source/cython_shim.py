"""The names of the `cython` module that the interpreter meets in the kernel's source.

The compiled form uses Cython's own module.
"""

from __future__ import annotations

compiled = False


class _WithGil:
    """A context manager without effect."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


nogil = _WithGil()
