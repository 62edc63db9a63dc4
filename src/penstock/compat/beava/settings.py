"""Which of beava's ports a server has: `PENSTOCK_BEAVA_*` of the environment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.compat.beava.listening import address_of, is_loopback
from penstock.errors import InvalidArgument


class BeavaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses as `host:port`; an empty one is off. The environment variable of a field is its
    name in capitals with the prefix `PENSTOCK_BEAVA_`."""

    http: str = ""
    tcp: str = ""
    admin: str = ""
    test_mode: bool = False

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """The ports that are on."""
        given = {"http": self.http, "tcp": self.tcp, "admin": self.admin}
        return {
            name: address_of(text, f"PENSTOCK_BEAVA_{name.upper()}")
            for name, text in given.items()
            if text
        }


def beava_settings(environ: Mapping[str, str]) -> BeavaSettings:
    """Settings from `PENSTOCK_BEAVA_*`."""
    given = {
        name: environ[variable]
        for name in BeavaSettings.__struct_fields__
        if (variable := f"PENSTOCK_BEAVA_{name.upper()}") in environ
    }
    try:
        return msgspec.convert(given, BeavaSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"settings: {error}") from None


def check_access(
    addresses: Mapping[str, tuple[str, int]], *, has_keys: bool, is_insecure_allowed: bool
) -> None:
    """Beava's clients have no keys: whoever reaches a port may do everything."""
    if is_insecure_allowed:
        return
    for host, port in addresses.values():
        if not is_loopback(host):
            raise InvalidArgument(
                f"refusing to listen for beava's clients on {host}:{port}, which other machines "
                "can reach: they have no API keys; set PENSTOCK_ALLOW_INSECURE_NO_AUTH=1 if you "
                "mean it"
            )
    if addresses and has_keys:
        raise InvalidArgument(
            "this server has API keys and beava's clients have none: unset PENSTOCK_BEAVA_*, or "
            "set PENSTOCK_ALLOW_INSECURE_NO_AUTH=1 to let them in without"
        )
