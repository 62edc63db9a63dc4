"""`penstock key`: make an API key for a server."""

from __future__ import annotations

import typer

from penstock.cli import output
from penstock.cli.options import MORE, AsJson


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=MORE)(key)


def key(as_json: AsJson = False) -> None:
    """Make an API key: 256 random bits, shown this once.

    The first line is for the client (PENSTOCK_TOKEN). The second is for the server's
    PENSTOCK_API_KEYS and opens nothing by itself; scopes and prefixes may follow it, as in
    `sha256=…:read+write:orders-`.
    """
    from penstock.server.auth import new_key

    secret, digest = new_key()
    if as_json:
        output.json_line({"key": secret, "server": digest})
        return
    output.line(f"key     {secret}")
    output.line(f"server  {digest}")
