"""TLS trust settings of a sender."""

from __future__ import annotations

import ssl

from penstock.errors import InvalidArgument
from penstock.sender.connect_string import ConnectOptions


def tls_context(options: ConnectOptions) -> ssl.SSLContext | None:
    """The TLS context for `wss::`; None for `ws::`. Raises InvalidArgument with the path of a
    `tls_ca` that cannot be used."""
    if not options.is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
    except ssl.SSLError:
        raise InvalidArgument(f"tls_ca {options.tls_ca!r} contains no PEM certificates") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidArgument(f"tls_ca {options.tls_ca!r} cannot be read: {why}") from None
    # Some builds of Python take the minimum version from the OpenSSL configuration.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    if not options.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
