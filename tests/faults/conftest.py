"""Fixtures of the rigs that hurt a server."""

from __future__ import annotations

from tests.crash.conftest import report

__all__ = ["report"]
