"""From the bytes of a log to its frames, verified."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import CLOSE_BRACE
from penstock.codec.kernel_source.frame import checksum_holds, frame_fault, payload_bytes_of
from penstock.codec.kernel_source.layout import (
    APPEND,
    BODY_EXTRA_BYTES,
    BODY_EXTRA_BYTES_WITH_META,
    BODY_KEY_BYTES,
    CHECKSUM_BYTES,
    FRAME_BYTES_MIN,
    FRAME_LEN_BYTES,
    FRAME_LEN_MIN,
    FRAME_SEQ,
    FRAME_TOPIC_ID,
    FRAME_TS,
    FRAME_TYPE,
    FRAME_TYPE_MAX,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import HeldBuffer, grow, put32, u32, u64
from penstock.codec.kernel_source.statuses import CHECKSUM, CLEAN, TORN
from penstock.codec.kernel_source.thresholds import NOGIL_BYTES_MIN

if not cython.compiled:
    import re
    from struct import Struct

    from xxhash import xxh3_64_intdigest

    HEADER_AND_KEY = Struct("<IBxQQQHHI5s")  # and the start of a body without node and tag
    TAIL = Struct("<BQ")  # the last byte of a body, and the checksum


def add_frame(state, p, frame_end):
    """Add the frame at `state.at` to the last run, or begin a new run. False when memory ran
    out."""
    run: cython.pointer[ScanRun]
    fresh: cython.p_void
    kind: uint8_t = p[state.at + FRAME_TYPE]
    topic_id: uint64_t = u64(p, state.at + FRAME_TOPIC_ID)
    seq: uint64_t = u64(p, state.at + FRAME_SEQ)
    continues: cython.bint = False
    if kind == APPEND and state.run_count > 0:
        run = state.runs + (state.run_count - 1)
        continues = (
            run.kind == APPEND
            and run.topic_id == topic_id
            and run.next_seq == seq
            and seq != 0
            and (state.at - run.start) >> 32 == 0
        )
    if not continues:
        if state.run_count == state.run_capacity:
            fresh = grow(
                state.runs,
                cython.address(state.run_capacity),
                state.run_count + 64,
                cython.sizeof(ScanRun),
            )
            if fresh == cython.NULL:
                return False
            state.runs = cython.cast(cython.pointer[ScanRun], fresh)
        run = state.runs + state.run_count
        state.run_count += 1
        run.kind = kind
        run.topic_id = topic_id
        run.first_seq = seq
        run.first_ts = u64(p, state.at + FRAME_TS)
        run.start = state.at
        run.count = 0
        run.payload = 0
        run.first_offset = state.offset_count
    run.end = frame_end
    run.count += 1
    run.next_seq = seq + 1
    run.last_ts = u64(p, state.at + FRAME_TS)
    if kind == APPEND:
        run.payload += payload_bytes_of(p, state.at)
        if state.offset_count == state.offset_capacity:
            fresh = grow(
                state.offsets,
                cython.address(state.offset_capacity),
                state.offset_count + 256,
                OFFSET_BYTES,
            )
            if fresh == cython.NULL:
                return False
            state.offsets = cython.cast(WritePointer, fresh)
        put32(state.offsets, OFFSET_BYTES * state.offset_count, state.at - run.start)
        state.offset_count += 1
    return True


def end_of_log(p, at, end):
    """Why no frame begins at `at`: CLEAN in unwritten space, else the fault; -1 if one begins."""
    if end - at >= FRAME_LEN_BYTES:
        if u32(p, at) == 0:
            return CLEAN
        fault: cython.int = frame_fault(p, at, end)
        return -1 if fault == CLEAN else fault
    while at < end:
        if p[at] != 0:
            return TORN
        at += 1
    return CLEAN


def scan_frames(state, p, end):
    """Add frames until the first one that is not good, and record the reason."""
    frame_end: int64_t
    while True:
        state.reason = end_of_log(p, state.at, end)
        if state.reason >= 0:
            return
        if not checksum_holds(p, state.at):
            state.reason = CHECKSUM
            return
        frame_end = state.at + FRAME_LEN_BYTES + u32(p, state.at)
        if not add_frame(state, p, frame_end):
            state.out_of_memory = True
            return
        state.at = frame_end


def scan(buf, start: int64_t, end: int64_t):
    """ScanState and verify frames from `start`: (items, stop offset, reason).

    An item is (type, topic_id, seq, ts, start, end, count, payload bytes, offsets, last ts).
    Neighbouring Append frames of one topic with consecutive seqs make one item, their starts
    relative to the item's start in `offsets` as u32; a control frame makes one with count 1.
    Reason: 0 clean end, 1 torn, 2 checksum differs, 3 malformed. No frame at or after the stop
    offset is in the items.
    """
    view: HeldBuffer = HeldBuffer(buf)
    if not 0 <= start <= end <= view.size:
        raise ValueError(f"bytes {start}..{end} of a buffer of {view.size}")
    if not cython.compiled:
        return scan_interpreted(view.at, start, end)
    state: ScanState
    memset(cython.address(state), 0, cython.sizeof(ScanState))
    state.at = start
    i: int64_t
    run: cython.pointer[ScanRun]
    items: list = []
    try:
        if end - start >= NOGIL_BYTES_MIN:
            with cython.nogil:
                scan_frames(cython.address(state), view.at, end)
        else:
            scan_frames(cython.address(state), view.at, end)
        if state.out_of_memory:
            raise MemoryError
        for i in range(state.run_count):
            run = state.runs + i
            if run.kind == APPEND:
                offsets = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, state.offsets) + OFFSET_BYTES * run.first_offset,
                    OFFSET_BYTES * run.count,
                )
            else:
                offsets = b""
            items.append(
                (
                    run.kind,
                    run.topic_id,
                    run.first_seq,
                    run.first_ts,
                    run.start,
                    run.end,
                    run.count,
                    run.payload,
                    offsets,
                    run.last_ts,
                )
            )
        return items, state.at, state.reason
    finally:
        free(state.runs)
        free(state.offsets)


if not cython.compiled:

    def scan_interpreted(p, at, end):
        items = []
        offsets = []
        topic = start = first_seq = first_ts = last_ts = payload = 0  # of the run being gathered
        follower = -1  # the seq that would continue it; -1 when there is no run
        is_wide = end - at >= 1 << 32
        push = offsets.append
        unpack, unpack_tail, digest = (
            HEADER_AND_KEY.unpack_from,
            TAIL.unpack_from,
            xxh3_64_intdigest,
        )

        def close_run(run_end):
            packed = Struct(f"<{len(offsets)}I").pack(*offsets)
            run = APPEND, topic, first_seq, first_ts, start, run_end
            items.append((*run, len(offsets), payload, packed, last_ts))
            offsets.clear()

        while end - at >= FRAME_BYTES_MIN:
            frame_len, kind, topic_id, seq, ts, node_size, tag_size, size, key = unpack(p, at)
            stop = at + FRAME_LEN_BYTES + frame_len
            labels_size = node_size + tag_size
            if (
                stop > end
                or FRAME_LEN_MIN + labels_size + size != frame_len
                or not 0 < kind <= FRAME_TYPE_MAX
            ):
                break
            last, checksum = unpack_tail(p, stop - TAIL.size)
            if digest(p[at + FRAME_LEN_BYTES : stop - CHECKSUM_BYTES]) != checksum:
                break
            if kind == APPEND:
                if seq != follower or topic_id != topic or (is_wide and at - start >> 32):
                    if follower >= 0:
                        close_run(at)
                    topic, start, first_seq, first_ts, payload = topic_id, at, seq, ts, 0
                push(at - start)
                follower = seq + 1
                last_ts = ts
                if last == CLOSE_BRACE and size >= BODY_EXTRA_BYTES:
                    if labels_size:
                        body = stop - CHECKSUM_BYTES - size
                        key = p[body : body + BODY_KEY_BYTES]
                    if key == b'{"d":':
                        size -= BODY_EXTRA_BYTES
                    elif key == b'{"m":' and size >= BODY_EXTRA_BYTES_WITH_META:
                        size -= BODY_EXTRA_BYTES_WITH_META
                payload += size
            else:
                if follower >= 0:
                    close_run(at)
                    follower = -1
                items.append((kind, topic_id, seq, ts, at, stop, 1, 0, b"", ts))
            at = stop
        if follower >= 0:
            close_run(at)
        reason = end_of_log(p, at, end)
        return items, at, CHECKSUM if reason < 0 else reason


def count_frames(buf):
    """How many frames lie end to end in `buf`, by their lengths alone."""
    view: HeldBuffer = HeldBuffer(buf)
    p: ReadPointer = view.at
    at: int64_t = 0
    size: int64_t
    count: int64_t = 0
    while view.size - at >= FRAME_BYTES_MIN:
        size = u32(p, at)
        if size < FRAME_LEN_MIN or size > view.size - at - FRAME_LEN_BYTES:
            break
        at += FRAME_LEN_BYTES + size
        count += 1
    return count


def resync(buf, start: int64_t, end: int64_t):
    """The smallest offset from `start` on where a whole frame with a true checksum lies, or -1."""
    view: HeldBuffer = HeldBuffer(buf)
    if not 0 <= start <= end <= view.size:
        raise ValueError(f"bytes {start}..{end} of a buffer of {view.size}")
    if cython.compiled:
        p: ReadPointer = view.at
        with cython.nogil:
            while start + FRAME_BYTES_MIN <= end:
                if u64(p, start) == 0:
                    start += 5  # at each of the next four offsets the length would be 0 too
                elif frame_fault(p, start, end) == CLEAN and checksum_holds(p, start):
                    break
                else:
                    start += 1
        return start if start + FRAME_BYTES_MIN <= end else -1
    else:
        # The top byte of a length that fits, then a type: random bytes rarely have both.
        top = min(end - start >> 24, 255)
        plausible = re.compile(rb"(?s)[\x00-" + re.escape(bytes([top])) + rb"][\x01-\x3f]")
        found = plausible.search(view.at, start + 3, end)
        while found:
            at = found.start() - 3
            if frame_fault(view.at, at, end) == CLEAN and checksum_holds(view.at, at):
                return at
            found = plausible.search(view.at, at + 4, end)
        return -1
