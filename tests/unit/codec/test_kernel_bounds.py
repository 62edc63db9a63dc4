"""The compiled form reads nothing outside its buffers: each one ends where forbidden memory begins.

A read too far would kill the process, so the trial runs in one of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import ctypes, mmap, random, sys
from penstock.codec import kernel

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE = mmap.PAGESIZE
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

def fence():
    base = libc.mmap(None, 3 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, FLAGS, -1, 0)
    assert libc.mprotect(base, PAGE, 0) == 0
    assert libc.mprotect(base + 2 * PAGE, PAGE, 0) == 0
    return base + PAGE

FENCES = [fence() for _ in range(3)]

def held(which, data, at_end):
    data = data[:PAGE]
    address = FENCES[which] + (PAGE - len(data) if at_end else 0)
    ctypes.memmove(address, data, len(data))
    return memoryview((ctypes.c_ubyte * len(data)).from_address(address)).cast("B")

noise = random.Random(int(sys.argv[1]))
datas = [b'{"n":%d,"s":"%s"}' % (i, b"x" * noise.randrange(300)) for i in range(9)]
metas = [noise.choice([None, b'{"k":["v",{"d":1}]}', b'"a\\\\"b"']) for _ in datas]
tags = [noise.choice([None, b"t", b"tag"]) for _ in datas]
frames, offsets, _ = kernel.encode_appends(7, 1, 9, 4, datas, metas, tags, tags, None, b"n")
index = kernel.build_index(frames, offsets, 9, 0)
packed = kernel.pack_records(datas, b"tag", b"n")
spans = kernel.packed_spans(packed, 0, 9, 99, 99)
records = b",".join(b'{"data":%b,"tag":"t"}' % data for data in datas)
body = b'{"node":"n","records":[%b],"create":true}' % records
assert kernel.json_spans(body, 99, 99, 99)
array = b"[%b]" % b",".join(datas)
assert kernel.element_spans(array, 99)

def damaged(data):
    data = bytearray(data)
    for _ in range(noise.choice([0, 0, 1, 2, 5])):
        at = noise.randrange(len(data))
        data[at] = noise.choice([0, 1, 0x22, 0x5C, 0x7F, 0xFF, noise.randrange(256)])
    return bytes(data[:noise.randrange(len(data) + 1)] if noise.random() < 0.5 else data)

def attempt(function, *arguments):
    try:
        function(*arguments)
    except (ValueError, IndexError, OverflowError):
        pass

for _ in range(4000):
    at_end = noise.random() < 0.8
    buf = held(0, damaged(frames), at_end)
    source, stride = noise.choice([(offsets, 4), (index, 24), (index, 8)])
    table = held(1, damaged(source), at_end)
    bits = held(2, noise.randbytes(noise.randrange(3)), at_end)
    i1 = noise.choice([9, len(table) // stride])
    i0 = noise.randrange(i1 + 1)
    where = buf, table, stride, i0, i1, noise.choice([None, bits])
    attempt(kernel.scan, buf, noise.randrange(len(buf) + 1), len(buf))
    attempt(kernel.count_frames, buf)
    attempt(kernel.resync, buf, noise.randrange(len(buf) + 1), len(buf))
    pattern = noise.choice([None, b"", b"t", b"tagtag"]), noise.random() < 0.5
    attempt(kernel.project, *where, [b"t"], 99, 9999, noise.randrange(128), 1, 7, *pattern)
    attempt(kernel.find_tags, *where, b"ta", noise.random() < 0.5)
    attempt(kernel.measure, *where)
    attempt(kernel.measure_some, buf, table, stride, bits)
    attempt(kernel.build_index, buf, table, i1, 0)
    attempt(kernel.copy_live, *where, 0)
    attempt(kernel.group_tags, *where, 0, {})
    attempt(kernel.ts_bound, table, i1, noise.randrange(20))
    attempt(kernel.frame_ts, buf, table, stride, i0)
    attempt(kernel.frame_at, buf, table, stride, i0)
    attempt(kernel.filter_indices, table, i0, i1, bits)
    attempt(kernel.shift_offsets, table, 5)
    attempt(kernel.join_frames, [buf, buf], [table, table])
    attempt(kernel.xxh3_64, buf)
    attempt(kernel.json_spans, held(0, damaged(body), at_end), 99, 99, 99)
    attempt(kernel.element_spans, held(0, damaged(array), at_end), 99)
    buf = held(0, damaged(packed), at_end)
    attempt(kernel.packed_spans, buf, 0, noise.choice([9, noise.randrange(10)]), 99, 99)
    table = held(1, damaged(spans), at_end)
    attempt(kernel.span_sizes, table)
    fields = [b"n", b"s"], b"\\0\\3", bytearray(144), bytearray(18), bytearray(72), 9, True
    attempt(kernel.json_fields, table, buf, b"\\xff\\1", 9, *fields, noise.random() < 0.5)
    attempt(kernel.masked_messages, bytes(damaged(packed)), 0, noise.randrange(300))
    attempt(kernel.encode_spans, 7, 1, 1, 0, [buf], [table], None, noise.choice([None, b"key"]))
print("compiled" if kernel.COMPILED else "interpreted", "unharmed")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="fences are made with mprotect")
@pytest.mark.parametrize("seed", range(4))
def test_no_function_reads_past_its_buffers(
    forms: tuple[ModuleType, ModuleType], seed: int
) -> None:
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), PENSTOCK_PURE="0")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "compiled unharmed\n", "")
