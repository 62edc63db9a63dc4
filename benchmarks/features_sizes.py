"""A snapshot of a size that the user names, embedded: how fast it is loaded."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

from benchmarks import features_events as made
from benchmarks.features_snapshots import load_figures, loads, runner_of
from benchmarks.server_stand import Stand
from penstock import limits
from penstock.cli.figure import Figure
from penstock.engine.open_log import open_log

_SAMPLE_KEYS: Final = 20_000
_FOLDED_EVERY: Final = 100  # batches
_TARGET_MB: Final = 10_000
_TARGET_GOAL_S: Final = 30.0
_MEMORY_PER_BYTE: Final = 8  # of the snapshot, at most: no key is moved to disk


def size_figures(stand: Stand, size: int) -> Iterator[Figure]:
    """About so many bytes; and the time that 10 GB would take at the same rate."""
    memory = min(max(limits.FEATURE_BYTES_MAX, _MEMORY_PER_BYTE * size), limits.TABLE_MEMORY_MAX)
    settings: dict[str, Any] = {"background": False, "feature_bytes_max": memory}
    with stand.folder() as folder:
        with open_log(folder, **settings) as log:
            log.features.register(made.definition(made.PLAIN))
            runner = runner_of(log)
            keys = _SAMPLE_KEYS
            for at in range(2):
                for number, batch in enumerate(made.each_key(keys)):
                    log.features.push(made.EVENT, batch)
                    if number % _FOLDED_EVERY == 0:
                        runner.catch_up()
                runner.catch_up()
                runner.save()
                if at == 0:  # as many as the size needs
                    keys = max(keys, -(-size * keys // runner.counts.snapshot_bytes))
        found = loads(stand, folder, **settings)
    yield from load_figures(f"snapshot of {size / 1e9:,.2f} GB, load", found, keys)
    rate = statistics.median(one.megabytes_per_s for one in found)
    note = f"extrapolated from {found[0].size / 1e9:,.2f} GB at {rate:,.0f} MB/s, not measured"
    title = "  … 10 GB at this rate"
    yield Figure(title, _TARGET_MB / rate, "s", note, _TARGET_GOAL_S, at_most=True)
