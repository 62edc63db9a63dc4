"""The error for missing packages of the extra `spark`."""

from __future__ import annotations

from penstock.errors import UsageError


class SparkMissing(UsageError, ImportError):
    """A package of the extra `spark` is not installed."""


def missing_requirement(error: ModuleNotFoundError) -> ModuleNotFoundError | SparkMissing:
    """The error to raise instead: SparkMissing, or the same if a module of Penstock is missing."""
    package = (error.name or "").partition(".")[0]
    if not package or package == "penstock":
        return error
    return SparkMissing(
        f'Spark needs the package {package}, which is not installed: pip install "penstock[spark]"'
    )
