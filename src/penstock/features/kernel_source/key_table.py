"""Keys of a table and their slots: open addressing over arrays, the bytes of the keys in an arena.

An entry of the table is 0, or 32 bits of a keyed hash and, in the lower half, a slot + 1. A slot's
start is where its key lies in the arena: 4 bytes of size, then the key. Starts below 0: NO_KEY, or
a slot that is free, with the number of the next free one. The arena ends with 8 unused bytes.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.features.kernel_source.c_types import INT64_MIN

if not cython.compiled:  # the numbers are in key_table.pxd too
    from hashlib import blake2b
    from struct import Struct

    U32 = Struct("<I")
    I64 = Struct("<q")

    NO_KEY = -1
    FREE = -3  # minus the next free slot; FREE + 1 ends the chain

    # The places of `state`.
    LIVE = 0
    USED = 1
    NEXT_FREE = 2
    ARENA_END = 3
    GARBAGE = 4
    CREATED = 5
    RETIRED = 6

    def _slot_of(entry):
        """The slot of an entry, -1 for an empty one."""
        return (entry & 0xFFFFFFFF) - 1


def _key_hash(texts, at, size, seed, other):
    """32 bits that nobody can foresee who does not know the seeds."""
    if not 0 <= at <= at + size < texts.shape[0]:
        raise IndexError("a key is not inside its buffer")
    if cython.compiled:
        return c_hash(cython.address(texts[at]), size, seed, other)
    seeds = seed.to_bytes(8, "little") + other.to_bytes(8, "little")
    return int.from_bytes(
        blake2b(texts[at : at + size], digest_size=4, key=seeds).digest(), "little"
    )


def _key_size(arena, start):
    """The bytes of the key at `start`."""
    size: uint32_t
    if not 0 <= start < arena.shape[0] - 4:
        raise IndexError("a key is not inside its buffer")
    if cython.compiled:
        memcpy(cython.address(size), cython.address(arena[start]), 4)
    else:
        size = U32.unpack_from(arena, start)[0]
    return size


def _is_key(arena, start, texts, at, size):
    """Is it the key at `start`?"""
    if _key_size(arena, start) != size:
        return False
    if start + 4 + size >= arena.shape[0] or at + size >= texts.shape[0]:
        raise IndexError("a key is not inside its buffer")
    if cython.compiled:
        return memcmp(cython.address(arena[start + 4]), cython.address(texts[at]), size) == 0
    return arena[start + 4 : start + 4 + size] == texts[at : at + size]


def _put_key(arena, start, texts, at, size):
    """Write a key with its size."""
    short: uint32_t = size
    if not 0 <= start <= start + 4 + size < arena.shape[0] or at + size >= texts.shape[0]:
        raise IndexError("a key is not inside its buffer")
    if cython.compiled:
        memcpy(cython.address(arena[start]), cython.address(short), 4)
        memcpy(cython.address(arena[start + 4]), cython.address(texts[at]), size)
    else:
        U32.pack_into(arena, start, short)
        arena[start + 4 : start + 4 + size] = texts[at : at + size]
    return 0


def _put_entry(entries, hashed, slot):
    """Write an entry into a table that does not have it and has room."""
    mask: uint32_t = entries.shape[0] - 1
    place: uint32_t = hashed & mask
    wide: uint64_t = hashed
    low: uint64_t = slot + 1
    while entries[place]:
        place = (place + 1) & mask
    entries[place] = (wide << 32) | low
    return 0


def _utf8_size(text):
    """The bytes of a text."""
    if not cython.compiled:
        return len(text.encode())
    size: cython.Py_ssize_t = 0
    PyUnicode_AsUTF8AndSize(text, cython.address(size))
    return size


def _put_utf8(out, at, text, size):
    """Write a text of this size."""
    if not cython.compiled:
        out[at : at + size] = text.encode()
        return 0
    length: cython.Py_ssize_t = 0
    if size:
        p: cython.p_const_char = PyUnicode_AsUTF8AndSize(text, cython.address(length))
        if length != size or at + size > out.shape[0]:
            raise IndexError("a key is not inside its buffer")
        memcpy(cython.address(out[at]), p, size)
    return 0


def encode_keys(
    is_text: bytes,
    numbers: cython.const[int64_t][:, ::1],
    texts: list,
    present: cython.const[uint8_t][::1],
    offsets: int64_t[::1],
):
    """The keys of events as bytes, one behind the other, and 8 unused bytes; `offsets` gets where
    each begins. A column is the next row of `numbers` or the next list of `texts`. Texts have
    their size before them, except in the last column. Absent keys are empty."""
    count: int64_t = present.shape[0]
    width: int64_t = len(is_text)
    i: int64_t
    at: int64_t
    column: int64_t
    size: int64_t
    row: int64_t
    end: int64_t = 0
    values: list
    for i in range(count):
        offsets[i] = end
        if present[i]:
            row = 0
            for column in range(width):
                if is_text[column]:
                    values = texts[column - row]
                    end += _utf8_size(values[i])
                    if column + 1 < width:
                        end += 4
                else:
                    row += 1
                    end += 8
    offsets[count] = end
    room = bytearray(end + 8)
    out: uint8_t[::1] = room
    number: int64_t
    short: uint32_t
    if not cython.compiled:
        out = memoryview(room)
    for i in range(count):
        if present[i]:
            at = offsets[i]
            row = 0
            for column in range(width):
                if is_text[column]:
                    values = texts[column - row]
                    size = _utf8_size(values[i])
                    if column + 1 < width:
                        short = size
                        if cython.compiled:
                            memcpy(cython.address(out[at]), cython.address(short), 4)
                        else:
                            U32.pack_into(out, at, short)
                        at += 4
                    _put_utf8(out, at, values[i], size)
                    at += size
                else:
                    number = numbers[row, i]
                    if cython.compiled:
                        memcpy(cython.address(out[at]), cython.address(number), 8)
                    else:
                        I64.pack_into(out, at, number)
                    row += 1
                    at += 8
    return room


def find_slots(
    entries: uint64_t[::1],
    seed: uint64_t,
    other: uint64_t,
    starts: int64_t[::1],
    arena: uint8_t[::1],
    state: int64_t[::1],
    offsets: cython.const[int64_t][::1],
    texts: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    inserts: cython.bint,
    slots: int64_t[::1],
    created: int64_t[::1],
):
    """The slot of each key, -1 where there is none. With `inserts`, new keys get slots, in the
    order in which they appear, and `created` has their number; there is room for all."""
    count: int64_t = present.shape[0]
    i: int64_t
    j: int64_t
    at: int64_t
    size: int64_t
    slot: int64_t
    hashed: uint32_t
    half: uint32_t
    place: uint32_t
    entry: uint64_t
    wide: uint64_t
    mask: uint32_t = entries.shape[0] - 1
    with cython.nogil:
        for i in range(count):
            # The hashes are kept in `slots` until they are looked up.
            slots[i] = _key_hash(texts, offsets[i], offsets[i + 1] - offsets[i], seed, other)
        for i in range(count):
            if cython.compiled:
                j = i + 12
                if j < count:
                    half = slots[j]
                    c_prefetch(cython.address(entries[half & mask]))
                j = i + 8
                if j < count:
                    half = slots[j]
                    slot = _slot_of(entries[half & mask])
                    if slot >= 0:
                        c_prefetch(cython.address(starts[slot]))
                j = i + 4
                if j < count:
                    half = slots[j]
                    slot = _slot_of(entries[half & mask])
                    if slot >= 0 and starts[slot] >= 0:
                        c_prefetch(cython.address(arena[starts[slot]]))
            hashed = slots[i]
            slots[i] = -1
            if not present[i]:
                continue
            at = offsets[i]
            size = offsets[i + 1] - at
            place = hashed & mask
            while True:
                entry = entries[place]
                if entry == 0:
                    break
                half = entry >> 32
                if half == hashed:
                    slot = _slot_of(entry)
                    if _is_key(arena, starts[slot], texts, at, size):
                        slots[i] = slot
                        break
                place = (place + 1) & mask
            if entry or not inserts:
                continue
            if state[NEXT_FREE] >= 0:
                slot = state[NEXT_FREE]
                state[NEXT_FREE] = FREE - starts[slot]
            else:
                slot = state[USED]
                state[USED] += 1
            starts[slot] = state[ARENA_END]
            _put_key(arena, state[ARENA_END], texts, at, size)
            state[ARENA_END] += 4 + size
            wide = hashed
            entry = slot + 1
            entries[place] = (wide << 32) | entry
            created[state[CREATED]] = slot
            state[CREATED] += 1
            state[LIVE] += 1
            slots[i] = slot


def find_slot(
    entries: cython.const[uint64_t][::1],
    seed: uint64_t,
    other: uint64_t,
    starts: cython.const[int64_t][::1],
    arena: cython.const[uint8_t][::1],
    key: cython.const[uint8_t][::1],
):
    """The slot of one key, -1 if it has none. Behind the key are 8 unused bytes."""
    size: int64_t = key.shape[0] - 8
    mask: uint32_t = entries.shape[0] - 1
    hashed: uint32_t = _key_hash(key, 0, size, seed, other)
    half: uint32_t
    place: uint32_t = hashed & mask
    slot: int64_t
    while entries[place]:
        half = entries[place] >> 32
        if half == hashed:
            slot = _slot_of(entries[place])
            if _is_key(arena, starts[slot], key, 0, size):
                return slot
        place = (place + 1) & mask
    return -1


def erase_keys(
    entries: uint64_t[::1],
    seed: uint64_t,
    other: uint64_t,
    starts: int64_t[::1],
    arena: cython.const[uint8_t][::1],
    state: int64_t[::1],
    slots: cython.const[int64_t][::1],
):
    """Remove the keys of these slots, which become free. Slots without a key become free too."""
    i: int64_t
    slot: int64_t
    size: int64_t
    mask: uint32_t = entries.shape[0] - 1
    place: uint32_t
    hole: uint32_t
    home: uint32_t
    for i in range(slots.shape[0]):
        slot = slots[i]
        if starts[slot] < NO_KEY:
            raise ValueError(f"slot {slot} is free")
        if starts[slot] >= 0:
            size = _key_size(arena, starts[slot])
            place = _key_hash(arena, starts[slot] + 4, size, seed, other) & mask
            while _slot_of(entries[place]) != slot:
                if entries[place] == 0:
                    raise ValueError(f"slot {slot} has no entry")
                place = (place + 1) & mask
            # Entries behind the hole move into it, unless that is before their home.
            hole = place
            while True:
                place = (place + 1) & mask
                if entries[place] == 0:
                    break
                home = (entries[place] >> 32) & mask
                if ((place - home) & mask) >= ((place - hole) & mask):
                    entries[hole] = entries[place]
                    hole = place
            entries[hole] = 0
            state[GARBAGE] += 4 + size
            state[LIVE] -= 1
        starts[slot] = FREE - state[NEXT_FREE]
        state[NEXT_FREE] = slot


def move_entries(old: cython.const[uint64_t][::1], entries: uint64_t[::1]):
    """Write the entries of one table into an empty one of another size."""
    i: int64_t
    for i in range(old.shape[0]):
        if old[i]:
            _put_entry(entries, old[i] >> 32, _slot_of(old[i]))


def retire_slots(
    entries: uint64_t[::1],
    seed: uint64_t,
    other: uint64_t,
    starts: int64_t[::1],
    arena: cython.const[uint8_t][::1],
    state: int64_t[::1],
    slots: int64_t[::1],
    times: cython.const[int64_t][::1],
    largest: cython.const[int64_t][::1],
    touched: int64_t[::1],
    cold_after: int64_t,
    created: int64_t[::1],
    retired: int64_t[::1],
):
    """Give a new slot to each key whose last event is older than `cold_after` when an event of it
    comes. `retired` gets the slots that these keys had. `touched` is the time of the last event of
    each slot; `largest` the largest time of all events up to each one."""
    i: int64_t
    slot: int64_t
    fresh: int64_t
    mask: uint32_t = entries.shape[0] - 1
    place: uint32_t
    for i in range(state[CREATED]):
        touched[created[i]] = INT64_MIN
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < 0:
            continue
        while starts[slot] < 0:  # retired by an event before this one: `touched` has its successor
            slot = touched[slot]
        if (
            cold_after >= 0
            and touched[slot] != INT64_MIN
            and largest[i] - touched[slot] > cold_after
        ):
            if state[NEXT_FREE] >= 0:
                fresh = state[NEXT_FREE]
                state[NEXT_FREE] = FREE - starts[fresh]
            else:
                fresh = state[USED]
                state[USED] += 1
            place = (
                _key_hash(arena, starts[slot] + 4, _key_size(arena, starts[slot]), seed, other)
                & mask
            )
            while _slot_of(entries[place]) != slot:
                if entries[place] == 0:
                    raise ValueError(f"slot {slot} has no entry")
                place = (place + 1) & mask
            entries[place] = entries[place] + fresh - slot
            starts[fresh] = starts[slot]
            starts[slot] = NO_KEY
            touched[slot] = fresh
            touched[fresh] = INT64_MIN
            retired[state[RETIRED]] = slot
            state[RETIRED] += 1
            created[state[CREATED]] = fresh
            state[CREATED] += 1
            slot = fresh
        if times[i] > touched[slot]:
            touched[slot] = times[i]
        slots[i] = slot


def gather_keys(
    starts: cython.const[int64_t][::1],
    arena: cython.const[uint8_t][::1],
    slots: cython.const[int64_t][::1],
    sizes: int32_t[::1],
):
    """The keys of these slots, each with its size as in the arena, end to end. `sizes` gets their
    sizes, -1 without a key."""
    i: int64_t
    size: int64_t
    total: int64_t = 0
    for i in range(sizes.shape[0]):
        sizes[i] = -1
        if starts[slots[i]] >= 0:
            size = _key_size(arena, starts[slots[i]])
            sizes[i] = size
            total += 4 + size
    room = bytearray(total + 8)
    out: uint8_t[::1] = room
    if not cython.compiled:
        out = memoryview(room)
    at: int64_t = 0
    for i in range(sizes.shape[0]):
        if sizes[i] >= 0:
            _put_key(out, at, arena, starts[slots[i]] + 4, sizes[i])
            at += 4 + sizes[i]
    return room


def index_keys(
    entries: uint64_t[::1],
    seed: uint64_t,
    other: uint64_t,
    starts: int64_t[::1],
    arena: uint8_t[::1],
    state: int64_t[::1],
    slots: cython.const[int64_t][::1],
    keys: cython.const[uint8_t][::1],
    sizes: cython.const[int32_t][::1],
):
    """The opposite of `gather_keys`, for slots without a key."""
    i: int64_t
    at: int64_t = 0
    size: int64_t
    slot: int64_t
    for i in range(sizes.shape[0]):
        size = sizes[i]
        slot = slots[i]
        if size < 0 or starts[slot] != NO_KEY:
            raise ValueError(f"slot {slot}: it has no key, or two")
        if _key_size(keys, at) != size:
            raise ValueError(f"slot {slot}: its key has another size")
        _put_key(arena, state[ARENA_END], keys, at + 4, size)
        starts[slot] = state[ARENA_END]
        _put_entry(entries, _key_hash(keys, at + 4, size, seed, other), slot)
        state[ARENA_END] += 4 + size
        state[LIVE] += 1
        at += 4 + size
