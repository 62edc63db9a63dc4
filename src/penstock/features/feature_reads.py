"""Reads of several rows in one call: how each is given, and the error in the place of a row."""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import NotReady, PenstockError, ProjectionFailed, SchemaMismatch, TableNotFound
from penstock.feature_types import FeatureError, FeatureRead

_CODES: Final = (
    (TableNotFound, "table_not_found"),
    (NotReady, "table_not_ready"),
    (ProjectionFailed, "table_failed"),
)


def read_of(given: FeatureRead | tuple[Any, ...]) -> FeatureRead:
    return given if isinstance(given, FeatureRead) else FeatureRead(*given)


def error_of(error: PenstockError) -> FeatureError:
    detail = error.detail if isinstance(error, SchemaMismatch) else None
    return FeatureError(_code_of(error), str(error), detail)


def _code_of(error: PenstockError) -> str:
    """As the HTTP API has it."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return "invalid_request"
