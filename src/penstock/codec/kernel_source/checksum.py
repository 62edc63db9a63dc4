"""XXH3-64 with seed 0 and the default secret. Interpreted, `xxhash` computes it."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.memory import HeldBuffer, OutputBuffer, put64, u32, u64

if not cython.compiled:
    from xxhash import xxh3_64_intdigest


def short_avalanche(h):
    h = (h ^ (h >> 33)) * P64_2
    h = (h ^ (h >> 29)) * P64_3
    return h ^ (h >> 32)


def avalanche(h):
    h = (h ^ (h >> 37)) * MX_1
    return h ^ (h >> 32)


def mix16(p, at, secret_at):
    return mul128_fold64(
        u64(p, at) ^ u64(SECRET, secret_at), u64(p, at + 8) ^ u64(SECRET, secret_at + 8)
    )


def hash_up_to_16(p, size):
    h: uint64_t
    low: uint64_t
    high: uint64_t
    if size > 8:
        low = u64(p, 0) ^ (u64(SECRET, 24) ^ u64(SECRET, 32))
        high = u64(p, size - 8) ^ (u64(SECRET, 40) ^ u64(SECRET, 48))
        h = cython.cast(uint64_t, size) + swap64(low) + high + mul128_fold64(low, high)
        return avalanche(h)
    if size >= 4:
        high = u32(p, 0)
        h = (u32(p, size - 4) + (high << 32)) ^ (u64(SECRET, 8) ^ u64(SECRET, 16))
        h = (h ^ rotl64(h, 49) ^ rotl64(h, 24)) * MX_2
        h = (h ^ ((h >> 35) + cython.cast(uint64_t, size))) * MX_2
        return h ^ (h >> 28)
    if size > 0:
        low = p[0]
        high = p[size >> 1]
        h = (low << 16) | (high << 24) | p[size - 1] | (cython.cast(uint64_t, size) << 8)
        return short_avalanche(h ^ (u32(SECRET, 0) ^ u32(SECRET, 4)))
    return short_avalanche(u64(SECRET, 56) ^ u64(SECRET, 64))


def hash_up_to_128(p, size):
    h: uint64_t = cython.cast(uint64_t, size) * P64_1
    if size > 96:
        h += mix16(p, 48, 96) + mix16(p, size - 64, 112)
    if size > 64:
        h += mix16(p, 32, 64) + mix16(p, size - 48, 80)
    if size > 32:
        h += mix16(p, 16, 32) + mix16(p, size - 32, 48)
    return avalanche(h + mix16(p, 0, 0) + mix16(p, size - 16, 16))


def hash_up_to_240(p, size):
    h: uint64_t = cython.cast(uint64_t, size) * P64_1
    at: int64_t
    for at in range(0, 128, 16):
        h += mix16(p, at, at)
    h = avalanche(h)
    for at in range(128, size - 15, 16):
        h += mix16(p, at, at - 125)
    return avalanche(h + mix16(p, size - 16, 119))


def accumulate(acc, p, secret):
    lane: cython.int
    data: uint64_t
    key: uint64_t
    for lane in range(8):
        data = u64(p, 8 * lane)
        key = data ^ u64(secret, 8 * lane)
        acc[lane ^ 1] += data
        acc[lane] += mul32(key, key >> 32)


def hash_long(p, size):
    """Stripes of 64 bytes into eight lanes; after every 16 stripes the lanes are scrambled."""
    acc: uint64_t[8]
    h: uint64_t
    lane: cython.int
    stripe: int64_t
    at: int64_t = 0
    last: int64_t = size - 64
    acc[0], acc[1], acc[2], acc[3] = P32_3, P64_1, P64_2, P64_3
    acc[4], acc[5], acc[6], acc[7] = P64_4, P32_2, P64_5, P32_1
    while size - at > 1024:
        for stripe in range(16):
            accumulate(acc, p + at + 64 * stripe, SECRET + 8 * stripe)
        for lane in range(8):
            h = acc[lane]
            acc[lane] = (h ^ (h >> 47) ^ u64(SECRET, 128 + 8 * lane)) * P32_1
        at += 1024
    stripe = 0
    while at + 64 * stripe < last:
        accumulate(acc, p + at + 64 * stripe, SECRET + 8 * stripe)
        stripe += 1
    accumulate(acc, p + last, SECRET + 121)
    h = cython.cast(uint64_t, size) * P64_1
    for lane in range(0, 8, 2):
        h += mul128_fold64(
            acc[lane] ^ u64(SECRET, 11 + 8 * lane),
            acc[lane + 1] ^ u64(SECRET, 19 + 8 * lane),
        )
    return avalanche(h)


def hash64(p, at, size):
    if cython.compiled:
        if size <= 16:
            return hash_up_to_16(p + at, size)
        if size <= 128:
            return hash_up_to_128(p + at, size)
        if size <= 240:
            return hash_up_to_240(p + at, size)
        return hash_long(p + at, size)
    else:
        return xxh3_64_intdigest(p[at : at + size])


def xxh3_64(data) -> int:
    """XXH3-64 of a buffer, seed 0."""
    view: HeldBuffer = HeldBuffer(data)
    return hash64(view.at, 0, view.size)


def hash_texts(texts: list):
    """XXH3-64 of each text in UTF-8, as u64; 0 for None. A lone surrogate has three bytes."""
    hashes: OutputBuffer = OutputBuffer(8 * len(texts))
    size: cython.Py_ssize_t = 0
    i: int64_t
    for i in range(len(texts)):
        text = texts[i]
        if text is None:
            put64(hashes.at, 8 * i, 0)
            continue
        if cython.compiled:
            try:
                at = PyUnicode_AsUTF8AndSize(text, cython.address(size))
                put64(hashes.at, 8 * i, hash64(cython.cast(ReadPointer, at), 0, size))
                continue
            except UnicodeEncodeError:
                pass
        put64(hashes.at, 8 * i, xxh3_64(text.encode("utf-8", "surrogatepass")))
    return hashes.as_bytes()
