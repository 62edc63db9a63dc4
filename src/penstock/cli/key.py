"""`penstock key`: create an API key for a server."""

from __future__ import annotations

import typer

from penstock.cli import output
from penstock.cli.options import MORE, AsJson


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=MORE)(key)


def key(as_json: AsJson = False) -> None:
    """Create an API key of 256 random bits. It is printed once and not stored.

    The first line is for the client (PENSTOCK_TOKEN). The second is its digest, for the server's
    PENSTOCK_API_KEYS; the digest gives no access. Scopes and prefixes may follow it, as in
    `sha256=…:read+write:orders-`.
    """
    from penstock.server.auth import new_key

    secret, digest = new_key()
    if as_json:
        output.json_line({"key": secret, "server": digest})
        return
    output.line(f"key     {secret}")
    output.line(f"server  {digest}")
