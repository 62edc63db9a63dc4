"""Laws of the bound on connections."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator

import pytest

from penstock.server import descriptor_limit
from penstock.server.descriptor_limit import RESERVED, bounded, connections_max


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Put back as they were."""
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


@pytest.mark.parametrize(
    ("files", "wanted", "found"),
    [
        (100_000, 20_000, 20_000),
        (20_000 + RESERVED, 20_000, 20_000),
        (20_000, 20_000, 20_000 - RESERVED),
        (1024, 20_000, 1024 - RESERVED),
        (64, 20_000, 32),
        (64, 10, 10),
        (1, 20_000, 1),
        (1024, 0, 1024 - RESERVED),
    ],
)
def test_connections_leave_the_log_its_descriptors(files: int, wanted: int, found: int) -> None:
    assert connections_max(files, wanted) == found


def test_the_soft_limit_rises_as_far_as_needed(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    found = bounded(300)

    soft, still = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert (found, soft, still) == (300, 300 + RESERVED, hard)


def test_a_limit_that_is_too_low_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptor_limit, "_raised", lambda needed: 64)

    with caplog.at_level(logging.WARNING):
        found = bounded(20_000)

    assert found == 32
    assert "at most 32 connections" in caplog.text
    assert "64 files" in caplog.text


@pytest.mark.parametrize("files", [20_000, 1 << 21])
def test_a_limit_that_is_about_high_enough_is_not_mentioned(
    files: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(descriptor_limit, "_raised", lambda needed: files)

    assert bounded(20_000) >= 20_000 - RESERVED
    assert bounded(0) == files - RESERVED
    assert not caplog.records


def test_no_limit_is_a_high_one(monkeypatch: pytest.MonkeyPatch) -> None:
    unbounded = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda kind: unbounded)

    assert bounded(20_000) == 20_000
