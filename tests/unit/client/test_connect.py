"""`connect` has the options of the client, with the same defaults."""

from __future__ import annotations

import inspect

import pytest

import penstock
from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.client.connect import connect


def test_connect_takes_what_the_client_takes() -> None:
    ours, clients = (inspect.signature(one).parameters for one in (connect, Client))

    assert list(ours.values()) == list(clients.values())


def test_connect_passes_its_options_on_and_sends_nothing() -> None:
    with connect("http://127.0.0.1:9/api", "secret", timeout_s=2.0, attempts_max=3) as client:
        options = client._options

    assert str(options.address) == "http://127.0.0.1:9/api"
    assert options.headers["Authorization"] == "Bearer secret"
    assert (options.timeout_s, options.policy.attempts_max) == (2.0, 3)


def test_the_package_s_names_are_these() -> None:
    assert penstock.connect is connect
    assert penstock.Client is Client
    assert penstock.AsyncClient is AsyncClient
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        penstock.nothing  # noqa: B018
