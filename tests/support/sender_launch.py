"""As `launch`, for senders: servers, producers, and the mutants of both."""

from __future__ import annotations

import sys

from penstock.cli.main import main as serve
from tests.support import launch, sender_mutants, sender_worker, server_mutants, spawn


def main() -> None:
    if sys.argv[1] == "produce":
        sender_worker.main(sys.argv[2])
        sys.exit(0)
    serve()


if __name__ == "__main__":
    server_mutants.MUTANTS.update(sender_mutants.OF_SERVERS | sender_mutants.OF_SENDERS)
    launch.main = main
    spawn.preload()
    launch._take_orders()
