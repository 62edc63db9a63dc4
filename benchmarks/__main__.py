"""`python -m benchmarks`."""

from __future__ import annotations

from benchmarks.command_line import main

main()
