"""What the kernel needs of the `cython` module when that package is not installed.

Only names the interpreter really touches: decorators that change nothing, and a context manager.
"""

from __future__ import annotations

compiled = False


class _Nothing:
    """A context manager and decorator without effect."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


nogil = _Nothing()
