"""The caller's trace context: sent when there is one, and never a reason to fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from penstock.client import tracing


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    tracing._api.cache_clear()
    yield
    tracing._api.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, *, is_valid: bool, injected: dict[str, str]) -> None:
    """A stand-in for the API package, as far as it is used."""
    trace: Any = ModuleType("opentelemetry.trace")
    context = SimpleNamespace(is_valid=is_valid)
    trace.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: context)
    propagate: Any = ModuleType("opentelemetry.propagate")
    propagate.inject = lambda carrier: carrier.update(injected)
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", propagate)


def test_without_the_package_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("opentelemetry", "opentelemetry.trace", "opentelemetry.propagate"):
        monkeypatch.setitem(sys.modules, name, None)

    assert tracing.headers() == {}


def test_without_a_span_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, is_valid=False, injected={"traceparent": "00-1-2-01"})

    assert tracing.headers() == {}


def test_the_current_span_is_sent_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"traceparent": "00-1-2-01", "tracestate": "a=b", "baggage": "secret=1"}
    install(monkeypatch, is_valid=True, injected=told)

    assert tracing.headers() == {"traceparent": "00-1-2-01", "tracestate": "a=b"}
