from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import s3


@pytest.fixture(scope="module")
def store() -> Iterator[s3.Store]:
    with s3.serving() as found:
        yield found
