"""What only an object store has: an address, credentials, and a network in between."""

from __future__ import annotations

import sys
from unittest import mock

import pytest

from penstock.errors import InvalidArgument
from penstock.storage.tiers import objects
from penstock.storage.tiers.objects import ObjectTier, is_url
from tests.support import s3


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s3://bucket/prefix", True),
        ("S3://bucket", True),
        ("gs://bucket/a", True),
        ("az://container/a", True),
        ("/var/cold", False),
        ("cold", False),
        ("http://host/x", False),
        ("s3:/bucket", False),
    ],
)
def test_urls_are_told_from_folders(where: str, expected: bool) -> None:
    assert is_url(where) is expected


def test_without_its_library_it_says_what_to_install() -> None:
    with (
        mock.patch.dict(sys.modules, {"obstore": None}),
        pytest.raises(InvalidArgument, match=r"penstock\[objects\]"),
    ):
        ObjectTier("s3://bucket/prefix").connect()


def test_a_store_that_does_not_answer_is_an_os_error_with_its_address(
    store: s3.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(objects, "_RETRIES", 0)
    tier = ObjectTier(store.url("away"))

    with pytest.raises(OSError, match="s3://penstock-tests/away/a") as caught:
        tier.map("a")

    assert not isinstance(caught.value, FileNotFoundError)
    assert "\n" not in (caught.value.strerror or "")


def test_an_address_without_a_bucket_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot be used"):
        ObjectTier("s3://").connect()
