"""Whom a sender trusts, and files that say nothing about it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.errors import InvalidArgument
from penstock.sender.connect_string import parse
from penstock.sender.sender import Sender
from penstock.sender.tls import tls_context


def test_without_tls_there_is_none() -> None:
    assert tls_context(parse("ws::addr=h;")) is None


def test_servers_are_verified_unless_that_is_turned_off() -> None:
    strict, lax = (tls_context(parse(f"wss::addr=h;{k}")) for k in ("", "tls_verify=unsafe_off;"))

    assert strict is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)
    for context in (strict, lax):  # whatever the build of Python leaves to the system
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("key", ["tls_ca", "tls_roots"])
def test_a_file_with_certificates_is_taken(tmp_path: Path, key: str) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")

    context = tls_context(parse(f"wss::addr=h;{key}={tmp_path}/ca.pem;"))

    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.pem", "No such file"),
        ("empty.pem", "no PEM certificates"),
        ("other.pem", "no PEM certificates"),
        ("folder", ""),
    ],
)
def test_a_file_that_cannot_be_used_is_named_at_once(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "empty.pem").touch()
    (tmp_path / "other.pem").write_text("not a certificate")
    (tmp_path / "folder").mkdir()

    with pytest.raises(InvalidArgument, match=f"tls_ca '{tmp_path}/{name}' .*{why}"):
        Sender(f"wss::addr=h:1;tls_ca={tmp_path}/{name};")
