"""stub"""
import os

def apply(name):
    pass

def experiment():
    from penstock.storage.wal.shard import Shard
    from penstock.engine import replay, rebuild
    from penstock.storage import snapshots
    from penstock.storage.wal import recovery
    Shard._prepare_ahead = lambda self: None
    original = rebuild.from_segments
    def from_segments(fs, layout, shelf):
        return original(fs, layout, shelf) if snapshots.numbers(fs, layout.meta) else []
    rebuild.from_segments = from_segments
    at_risk = recovery._tail_at_risk
    def tail(fs, found, marks):
        written = recovery._last_written(fs, found)
        return at_risk(fs, [f for f in found if f.group in written], marks)
    recovery._tail_at_risk = tail

if os.environ.get("EXPERIMENT"):
    experiment()
