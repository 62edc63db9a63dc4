"""stub"""
import os

def apply(name):
    pass

def experiment():
    import penstock
    from penstock.storage.wal.shard import Shard
    from penstock.engine import replay, rebuild, engine
    from penstock.storage import snapshots
    from penstock.storage.wal import recovery, mark, files
    from penstock.types import SeqsLost, Cause
    Shard._prepare_ahead = lambda self: None
    original = rebuild.from_segments
    def from_segments(fs, layout, shelf):
        return original(fs, layout, shelf) if snapshots.numbers(fs, layout.meta) else []
    rebuild.from_segments = from_segments
    def tail(fs, found, marks):
        written = recovery._last_written(fs, found)
        boot = fs.boot_id()
        for group, index in written.items():
            noted = marks.get(group)
            if noted is None or noted.is_failed: return True
            clean = noted.is_clean and index <= noted.index
            if not clean and noted.boot_id != boot: return True
        return False
    recovery._tail_at_risk = tail
    opener = engine.open_log
    def open_log(*a, **k):
        log = opener(*a, **k)
        p = log._parts
        v = p.recovered.verdict
        if v.may_have_lost_tail and not v.damage:
            for h in log._handles.values():
                t = h.topic
                if t.config.durability != "fsync" and t.losses and t.losses[-1].last == t.head:
                    log._commit(h, SeqsLost(t.id, t.losses[-1].first, t.head, Cause.LOST))
            for g in files.groups(p.fs, p.layout.wal):
                noted = mark.read(p.fs, g)
                if noted is None or noted.boot_id != p.fs.boot_id():
                    f = mark.open_file(p.fs, g); f.write_at(mark.Mark(noted.index if noted else 0, noted.offset if noted else 0, p.fs.boot_id()).encode(), 0); f.close()
                    if noted is None or noted.is_clean: pass
        return log
    penstock.open = open_log
    class Lanes(dict):
        def __missing__(self, key): return 1
    init = Shard.__init__
    def shard_init(self, *a, **k):
        init(self, *a, **k)
        self._lanes = Lanes()
        self._lanes.__class__.__delitem__ = lambda s, key: s.pop(key, None)
    Shard.__init__ = shard_init

if os.environ.get("EXPERIMENT"):
    experiment()
