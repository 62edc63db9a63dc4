"""`penstock` with one of its promises broken (RIG_MUTANT), for rigs that start it by its name."""

from __future__ import annotations

import os

from penstock.cli.main import main
from tests.support import sender_mutants, server_mutants

if __name__ == "__main__":
    server_mutants.MUTANTS.update(sender_mutants.OF_SERVERS)
    server_mutants.apply(os.environ.get("RIG_MUTANT"))
    main()
