"""`penstock serve`: the server on a data directory."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import output
from penstock.cli.options import DEFAULT_DIR, MORE, DataDir, PlacedDir, chosen

if TYPE_CHECKING:
    from penstock.server.settings import ServerSettings


def register(app: typer.Typer) -> None:
    app.command(name="serve", rich_help_panel=MORE)(serve_)


def serve_(
    placed: PlacedDir = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on, or address:port. [127.0.0.1]")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 selects a free one. [4000]")] = None,
    port_file: Annotated[
        Path | None, typer.Option(help="Write address:port to this file when the server listens.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Log only warnings and errors.")
    ] = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Serve a data directory over HTTP, SSE and WebSocket, until SIGTERM or Ctrl-C.

    Every setting has an environment variable: PENSTOCK_HOST, PENSTOCK_PORT, PENSTOCK_API_KEYS
    and the others in docs/operations/config.md.
    """
    # Imported here: the other commands do not need them.
    import uvloop

    from penstock.cli import serving
    from penstock.server.settings import server_settings

    settings = server_settings(
        os.environ,
        host=host,
        port=port,
        port_file=None if port_file is None else str(port_file),
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING if quiet else logging.INFO,
        format=serving.LOG_FORMAT,
    )
    serving.tune()
    uvloop.run(_serve(str(chosen(placed, data_dir)), settings))


async def _serve(data_dir: str, settings: ServerSettings) -> None:
    from penstock import config
    from penstock.cli.serving import until_stopped
    from penstock.compat.beava import settings as beava
    from penstock.compat.beava.listeners import listeners
    from penstock.compat.beava.listening import bound, shown
    from penstock.compat.qwp import adapter as qwp
    from penstock.server.app import Server

    log_settings = config.from_environment(os.environ)
    version = str(sys.modules["penstock"].__version__)
    of_beava = beava.beava_settings(os.environ)
    beava.check_access(
        of_beava.addresses,
        has_keys=settings.has_keys,
        is_insecure_allowed=settings.allow_insecure_no_auth,
    )
    sockets = {name: bound(address) for name, address in of_beava.addresses.items()}
    for name, listener in sockets.items():
        logging.getLogger("penstock.server").info("beava's %s port: %s", name, shown(listener))
    server = Server(
        data_dir,
        settings,
        log_settings,
        version=version,
        adapters=[qwp.routes],
        listeners=listeners(sockets, version=version, is_test_mode=of_beava.test_mode),
    )
    if settings.allow_insecure_no_auth and not settings.has_keys and not settings.is_loopback:
        output.info(
            f"listening on {settings.host} WITHOUT API KEYS: every client may read and write"
        )
    await until_stopped(server)
