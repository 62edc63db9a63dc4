"""For tests that start a PostgreSQL: whether there is one, and a directory it can reach."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.postgres import POSTGRES
from tests.support import requirements


def needed() -> None:
    """Without a server or its driver the test is skipped, and in CI it fails."""
    if POSTGRES.path and find_spec("psycopg"):
        return
    requirements.lacking("PostgreSQL and psycopg", requirements.FROM_DEBIAN)


@contextlib.contextmanager
def passable() -> Iterator[Path]:
    """A directory that other users can pass through, which those of pytest are not: for root, the
    server is another user's."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path
