"""Keys of other clients: none of them is one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sender import connect_string
from penstock.sender.connect_string import ConnectOptions
from penstock.sender.foreign_keys import ALIASES, REFUSED, why_refused


def test_no_key_is_both_taken_and_refused() -> None:
    ours = set(ConnectOptions.__struct_fields__)

    assert not ours & set(REFUSED)
    assert not ours & set(ALIASES)
    assert not set(ALIASES) & set(REFUSED)
    assert set(ALIASES.values()) <= ours


def test_families_are_refused_as_a_whole() -> None:
    assert why_refused("failover_backoff_max_ms") == why_refused("failover")
    assert why_refused("compression_level") == why_refused("compression")
    assert why_refused("failovers") is None
    assert why_refused("nope") is None


@pytest.mark.parametrize("key", ["addr", *connect_string._READERS, *ALIASES, *REFUSED])
def test_every_key_is_on_the_page_of_senders(key: str) -> None:
    page = Path(__file__).parents[3] / "docs/api/sender.md"

    assert f"`{key}`" in page.read_text()
