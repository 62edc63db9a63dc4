"""TLS settings that cannot work are refused at the start, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidArgument
from penstock.server import tls
from penstock.server.settings import ServerSettings


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = ServerSettings(tls_cert=str(tmp_path / "no.pem"), tls_key=str(tmp_path / "no.key"))

    with pytest.raises(InvalidArgument, match="tls_cert"):
        tls.server_context(settings)


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("this is no certificate", encoding="ascii")
    bad = str(tmp_path / "bad.pem")

    with pytest.raises(InvalidArgument, match="tls_cert"):
        tls.server_context(ServerSettings(tls_cert=bad, tls_key=bad))
