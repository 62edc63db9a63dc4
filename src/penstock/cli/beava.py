"""`penstock-beava`, and `penstock compat beava`: a process that starts as beava's server does.

A client that starts it waits 5 seconds for its ports. They are bound and told before anything else
is imported; requests wait for the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.compat.beava import listening
from penstock.compat.beava.process_options import ProcessOptions, options_of
from penstock.compat.beava.settings import check_access
from penstock.errors import InvalidArgument, PenstockError

_VERSION: Final = str(sys.modules["penstock"].__version__)
_USAGE: Final = 2
# The client that started it kills it after 5 s.
_DRAIN_MS: Final = 2_000


def main(argv: Sequence[str] | None = None, program: str = "penstock-beava") -> int:
    """The entry point."""
    try:
        options = options_of(sys.argv[1:] if argv is None else argv, os.environ, _VERSION, program)
        _check(options)
    except InvalidArgument as error:
        print(f"{program}: {error}", file=sys.stderr)
        return _USAGE
    try:
        bound = {name: listening.bound(at) for name, at in options.addresses.items()}
        for name, listener in bound.items():
            address = listening.shown(listener)
            told = {"kind": f"server.{name}_bound", "addr": address, "message": f"{name} port"}
            print(json.dumps(told), flush=True)
        with contextlib.ExitStack() as stack:
            data_dir = options.data_dir
            if not data_dir:
                kept = tempfile.TemporaryDirectory(prefix="penstock-beava-")
                data_dir = stack.enter_context(kept)
            else:
                Path(data_dir).mkdir(parents=True, exist_ok=True)
            _run(options, data_dir, bound)
    except (PenstockError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    return 0


def _check(options: ProcessOptions) -> None:
    if options.config_file and Path(options.config_file).read_text().strip():
        raise InvalidArgument(
            f"--config {options.config_file}: expected an empty file, such as /dev/null; what it "
            "says is said by options and by variables of the environment: see --help"
        )
    allowed = os.environ.get("PENSTOCK_ALLOW_INSECURE_NO_AUTH", "").lower() in ("1", "true")
    check_access(
        options.addresses,
        has_keys=bool(os.environ.get("PENSTOCK_API_KEYS", "").strip(", ")),
        is_insecure_allowed=allowed,
    )


def _run(options: ProcessOptions, data_dir: str, bound: Mapping[str, socket.socket]) -> None:
    """Imports what the ports did not have to wait for."""
    import uvloop

    from penstock.cli import serving
    from penstock.server.settings import server_settings

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=serving.LOG_FORMAT)
    serving.tune()
    # Our own HTTP API has a free port unless one was chosen.
    port = None if "PENSTOCK_PORT" in os.environ else 0
    settings = server_settings(os.environ, port=port, drain_timeout_ms=_DRAIN_MS)

    async def serve() -> None:
        from penstock import config
        from penstock.compat.beava.listeners import listeners
        from penstock.server.app import Server

        server = Server(
            data_dir,
            settings,
            config.from_environment(os.environ, **options.log_settings),
            version=_VERSION,
            listeners=listeners(
                bound,
                version=_VERSION,
                is_test_mode=options.is_test_mode,
                payload_bytes_max=options.payload_bytes_max,
            ),
        )
        await serving.until_stopped(server)

    uvloop.run(serve())


if __name__ == "__main__":
    sys.exit(main())
