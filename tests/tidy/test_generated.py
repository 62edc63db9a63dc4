"""Generated files are what their generator writes."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "scripts" / "generate_sync_client.py"


def test_the_sync_client_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, f"run scripts/generate_sync_client.py: {done.stdout}{done.stderr}"


def public(kind: type) -> dict[str, object]:
    verbs = {name: one for name, one in vars(kind).items() if not name.startswith("_")}
    return {name: one for name, one in verbs.items() if not isinstance(one, property)}


def test_both_clients_have_the_same_verbs() -> None:
    assert list(public(penstock.Client)) == list(public(penstock.AsyncClient))


@pytest.mark.parametrize("name", sorted(public(penstock.Client)))
def test_a_verb_is_the_same_in_both_clients(name: str) -> None:
    sync, other = getattr(penstock.Client, name), getattr(penstock.AsyncClient, name)

    assert sync.__doc__ == other.__doc__
    assert inspect.signature(sync).parameters == inspect.signature(other).parameters
    returned = re.sub(r"AsyncGenerator\[(.+), None\]", r"Iterator[\1]", str(returns(other)))
    expected = returned.replace("AsyncClient", "Client").replace("AsyncTable", "ClientTable")
    assert expected == returns(sync)
    assert not inspect.iscoroutinefunction(sync)


def returns(verb: object) -> str:
    """The annotation as it is written."""
    return str(inspect.signature(verb).return_annotation)  # type: ignore[arg-type]
