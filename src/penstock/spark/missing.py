"""What to say when the packages that Spark needs are not installed."""

from __future__ import annotations

from penstock.errors import UsageError


class SparkMissing(UsageError, ImportError):
    """A package that only the extra `spark` brings is not there."""


def told(error: ModuleNotFoundError) -> ModuleNotFoundError | SparkMissing:
    """The error to raise instead of this one, or this one if it is about a module of our own."""
    package = (error.name or "").partition(".")[0]
    if not package or package == "penstock":
        return error
    return SparkMissing(
        f'Spark needs the package {package}, which is not installed: pip install "penstock[spark]"'
    )
