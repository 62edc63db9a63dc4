"""The trace context of the caller, if OpenTelemetry is installed and a span is current."""

from __future__ import annotations

import functools
import importlib
from typing import Any

_NAMES = ("traceparent", "tracestate")


@functools.cache
def _api() -> tuple[Any, Any] | None:
    """(trace, propagate), or None where the package is not installed."""
    try:
        return (
            importlib.import_module("opentelemetry.trace"),
            importlib.import_module("opentelemetry.propagate"),
        )
    except ImportError:
        return None


def headers() -> dict[str, str]:
    """The headers for the current span; empty without one."""
    api = _api()
    if api is None:
        return {}
    trace, propagate = api
    if not trace.get_current_span().get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in _NAMES if carrier.get(name)}
