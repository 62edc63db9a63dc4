"""Whom a sender trusts."""

from __future__ import annotations

import ssl

from penstock.errors import InvalidArgument
from penstock.sender.profile import Profile


def tls_context(profile: Profile) -> ssl.SSLContext | None:
    """What `wss::` verifies servers with, and None for `ws::`. InvalidArgument names a `tls_ca`
    that cannot be used: without the name of the file nobody finds it."""
    if not profile.is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=profile.tls_ca)
    except ssl.SSLError:
        raise InvalidArgument(f"tls_ca {profile.tls_ca!r} holds no certificates in PEM") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidArgument(f"tls_ca {profile.tls_ca!r} cannot be read: {why}") from None
    # Some builds of Python leave the oldest version to the system's settings of OpenSSL.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    if not profile.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
