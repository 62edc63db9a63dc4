"""Keys: what they open, and that nothing else does."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.server.auth import ANYONE, ApiKey, Keyring, Scope


def key(text: str, token: str = "secret") -> ApiKey:
    found = Keyring(text).find_token(token.encode())
    assert found is not None
    return found


def test_without_keys_everyone_may_do_everything() -> None:
    ring = Keyring(" , ")

    assert ring.is_open
    assert ring.find(None) is ANYONE
    assert ANYONE.may(Scope.ALL)
    assert ANYONE.may_name("anything")


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ("", Scope.ALL),
        ("read", Scope.READ),
        ("R+W", Scope.READ | Scope.WRITE),
        ("rw", Scope.READ | Scope.WRITE),
        ("del+a", Scope.DELETE | Scope.ADMIN),
        ("d+write+r+admin", Scope.ALL),
    ],
)
def test_scopes_are_words_joined_by_a_plus(scopes: str, expected: Scope) -> None:
    assert key(f"secret:{scopes}").scopes == expected


def test_an_unknown_scope_stops_the_start() -> None:
    with pytest.raises(InvalidArgument, match="API key 1 has an unknown scope"):
        Keyring("secret:read+superuser")


def test_a_key_may_do_what_its_scopes_say_and_no_more() -> None:
    found = key("secret:rw")

    assert found.may(Scope.READ)
    assert found.may(Scope.READ | Scope.WRITE)
    assert found.may(Scope.NONE)
    assert not found.may(Scope.DELETE)
    assert not found.may(Scope.READ | Scope.ADMIN)


def test_prefixes_may_hold_colons_and_are_compared_byte_for_byte() -> None:
    found = key("secret::eu:orders|us-")

    assert found.scopes == Scope.ALL
    assert found.may_name("eu:orders.1")
    assert found.may_name("us-")
    assert not found.may_name("eu:order")
    assert not found.may_name("EU:orders")


def test_a_token_is_found_among_several_and_only_whole() -> None:
    ring = Keyring("one:r, two:w,,three")

    assert ring.find(b"Bearer two") is ring.find_token(b"two")
    assert ring.find(b"bearer  one") is not None
    for wrong in (b"Bearer tw", b"Bearer twoo", b"Basic two", b"two", b"", None, b"Bearer "):
        assert ring.find(wrong) is None


@given(st.text(st.characters(codec="ascii", exclude_characters=",:\0"), min_size=1))
def test_no_secret_is_kept(secret: str) -> None:
    if not secret.strip():
        return
    ring = Keyring(secret)

    assert ring.find_token(secret.strip().encode()) is not None
    held = repr([(one.digest, one.scopes, one.prefixes) for one in ring._keys])
    assert hashlib.sha256(secret.strip().encode()).digest() == ring._keys[0].digest
    assert len(secret.strip()) < 8 or secret.strip() not in held


@given(count=st.integers(1, 8), which=st.integers(0, 8))
def test_finding_a_key_takes_as_many_steps_whoever_asks(count: int, which: int) -> None:
    """Every key is compared, whole, whether one before it fits or none does."""
    ring = Keyring(",".join(f"key{n}" for n in range(count)))
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hmac, "compare_digest", watched)
        found = ring.find_token(f"key{which}".encode())

    assert (found is not None) is (which < count)
    assert compared == [(32, 32)] * count


def test_a_colon_in_a_secret_is_explained_without_showing_it() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Keyring("good:read,pass:word")

    assert "API key 2" in str(caught.value)
    assert "word" not in str(caught.value)
