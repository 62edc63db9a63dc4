"""For tests that start a PostgreSQL: whether there is one, and a directory it can reach."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.cli.benchmarks.postgres import NO_DRIVER, POSTGRES
from tests.support.rig import IN_CI


def needed() -> None:
    """Without a server or its driver the test is skipped, and in CI it fails."""
    if POSTGRES.path and find_spec("psycopg"):
        return
    reason = NO_DRIVER.reason if POSTGRES.path else POSTGRES.missing.reason
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def passable() -> Iterator[Path]:
    """A directory that other users can pass through, which those of pytest are not: for root, the
    server is another user's."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path
