"""TLS: a server context that refuses old protocols and can reload its certificate."""

from __future__ import annotations

import ssl

from penstock.errors import InvalidArgument
from penstock.server.settings import ServerSettings


def server_context(settings: ServerSettings) -> ssl.SSLContext:
    """TLS 1.2 or later; with a client CA, clients must present a certificate of it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    load(context, settings)
    if settings.tls_client_ca:
        try:
            context.load_verify_locations(settings.tls_client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidArgument(f"tls_client_ca: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load(context: ssl.SSLContext, settings: ServerSettings) -> None:
    """Load the certificate and key into a context, also one that is in use. Loading is not atomic:
    a certificate and key that do not match would make the context unusable, so another context
    tries them first."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(f"tls_cert and tls_key: {error}") from None
