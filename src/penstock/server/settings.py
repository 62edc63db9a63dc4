"""Settings of a server, frozen, from code or from `PENSTOCK_*` in the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument

_TRUE = ("1", "true")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server behaves. Every field has an environment variable of the same name in
    capitals with the prefix `PENSTOCK_`. A count (`max_…`, but
    not `max_body_bytes`) of 0 is off."""

    host: str = "127.0.0.1"
    port: int = 4000
    port_file: str = ""
    api_keys: str = ""
    probe_auth: bool = False
    allow_insecure_no_auth: bool = False
    allowed_hosts: str = ""
    allowed_origins: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    max_body_bytes: int = 64 * limits.MIB
    max_watch_sessions: int = 10_000
    max_sse_connections: int = 10_000
    max_sse_connections_per_key: int = 1_000
    max_inflight_per_key: int = 1_000
    max_total_bytes: int = 0
    max_connections: int = 20_000
    max_connections_per_peer: int = 0
    header_timeout_ms: int = 10_000
    body_timeout_ms: int = 60_000
    body_min_rate: int = 1_000
    idle_timeout_ms: int = 75_000
    stream_buffer_bytes: int = 1 * limits.MIB
    stream_stall_ms: int = 60_000
    drain_timeout_ms: int = 10_000
    test_min_heartbeat_ms: int = 1_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is int and not 0 <= value <= 1 << 62:
                raise InvalidArgument(f"setting {name}={value} must not be negative")
        if self.port > 65_535:
            raise InvalidArgument(f"setting port={self.port} must be between 0 and 65535")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidArgument("specify both tls_cert and tls_key, or neither")

    @property
    def has_keys(self) -> bool:
        """As the keyring reads them: blanks are none."""
        return any(entry.strip() for entry in self.api_keys.split(","))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def server_settings(environ: Mapping[str, str], **overrides: object) -> ServerSettings:
    """Settings from `PENSTOCK_*`, with explicit values on top. `host` may hold the port too."""
    given: dict[str, object] = {}
    for name in ServerSettings.__struct_fields__:
        text = environ.get(f"PENSTOCK_{name.upper()}")
        if text is not None:
            given[name] = text
    given.update({name: value for name, value in overrides.items() if value is not None})
    for name in ("probe_auth", "allow_insecure_no_auth"):
        if isinstance(given.get(name), str):
            given[name] = str(given[name]).lower() in _TRUE
    host = str(given.get("host", ""))
    name, colon, port = host.rpartition(":")
    if colon and (":" not in name or name.endswith("]")):
        given["host"], given["port"] = name, port
    try:
        settings = msgspec.convert(given, ServerSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"settings: {error}") from None
    check_bind(settings)
    return settings


def check_bind(settings: ServerSettings) -> None:
    """Without keys the server accepts connections only from this machine."""
    if settings.is_loopback or settings.has_keys or settings.allow_insecure_no_auth:
        return
    raise InvalidArgument(
        f"refusing to listen on {settings.host}, which other machines can reach, without API keys: "
        "set PENSTOCK_API_KEYS, or PENSTOCK_ALLOW_INSECURE_NO_AUTH=1 if you mean it"
    )
