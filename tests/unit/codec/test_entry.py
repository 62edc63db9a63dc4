"""Entries survive the trip through a frame, and a broken body says so."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.entry import decode_entry, encode_entry, scar
from penstock.codec.frame import FRAME_BYTES_MIN, Frame, FrameType, decode_frame
from penstock.entries import (
    BatchStarted,
    ControlEntry,
    DurableMarked,
    FloorMoved,
    LeaseEvent,
    LeasesChanged,
    PositionMoved,
    RecordsDeleted,
    RouterCreated,
    RouterDropped,
    Scarred,
    SeqsLost,
    SeqsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
)
from penstock.types import Cause, TagMatch, TopicConfig

TS = 1_760_000_000_000
u64 = st.integers(0, (1 << 64) - 1)
names = st.text("abcXYZ019._:-é", min_size=1, max_size=20)
matches = st.none() | st.builds(TagMatch, st.binary(max_size=20), st.booleans())
configs = st.builds(
    TopicConfig,
    cap_records=u64,
    ttl_ms=u64,
    durability=st.sampled_from(["ephemeral", "memory", "disk", "fsync"]),
    dead_letter=st.none() | names,
)
numbers = st.lists(u64, max_size=5).map(tuple)
leases = st.builds(
    LeasesChanged,
    u64,
    st.sampled_from(LeaseEvent),
    numbers,
    numbers,
    st.just("") | names,
    u64,
    u64,
    u64,
)
entries = st.one_of(
    leases,
    st.builds(TopicCreated, u64, names, configs, st.just(TS)),
    st.builds(TopicConfigured, u64, names, configs),
    st.builds(TopicDropped, u64, names),
    st.builds(
        RecordsDeleted,
        u64,
        st.none() | u64,
        matches,
        st.lists(u64, max_size=5).map(tuple),
        u64,
    ),
    st.builds(FloorMoved, u64, u64, u64, u64),
    st.builds(SeqsReserved, u64, u64),
    st.builds(SeqsLost, u64, u64, u64, st.sampled_from(Cause)),
    st.builds(BatchStarted, u64, u64, st.integers(1, 10_000), st.binary(max_size=256), st.just(TS)),
    st.builds(DurableMarked, u64, u64),
    st.builds(PositionMoved, u64, names, u64, st.just(TS), is_removed=st.booleans()),
    st.builds(Scarred, st.integers(FRAME_BYTES_MIN, 500)),
    st.builds(RouterCreated, names, names, names, st.integers(0, 255), matches, u64, u64),
    st.builds(RouterDropped, names),
)


@given(entries)
def test_an_entry_comes_back_from_its_frame(entry: ControlEntry) -> None:
    encoded = encode_entry(entry, TS)

    frame, end = decode_frame(encoded, 0)

    assert end == len(encoded)
    assert decode_entry(frame) == entry


@given(entries, st.data())
def test_a_body_cut_short_is_refused_with_a_value_error_and_nothing_worse(
    entry: ControlEntry, data: st.DataObject
) -> None:
    frame, _ = decode_frame(encode_entry(entry, TS), 0)
    cut = data.draw(st.integers(0, max(0, len(frame.data) - 1)))
    short = Frame(
        frame.type,
        frame.flags,
        frame.topic_id,
        frame.seq,
        frame.ts,
        frame.node,
        frame.tag,
        frame.data[:cut],
    )

    with contextlib.suppress(ValueError):
        assert decode_entry(short) is not None


def lease_frame(body: bytes) -> Frame:
    return Frame(FrameType.LEASES, 0, 1, 0, TS, b"", b"", body)


@given(leases, st.data())
def test_leases_cut_anywhere_are_refused(entry: LeasesChanged, data: st.DataObject) -> None:
    frame, _ = decode_frame(encode_entry(entry, TS), 0)
    cut = data.draw(st.integers(0, len(frame.data) - 1))

    with pytest.raises(ValueError, match="unreadable body"):
        decode_entry(lease_frame(frame.data[:cut]))


@given(leases, st.integers(0, 255).filter(lambda number: number not in list(LeaseEvent)))
def test_what_became_of_jobs_in_a_later_version_is_refused(
    entry: LeasesChanged, event: int
) -> None:
    frame, _ = decode_frame(encode_entry(entry, TS), 0)

    with pytest.raises(ValueError, match=str(event)):
        decode_entry(lease_frame(bytes([event]) + frame.data[1:]))


@given(st.binary(max_size=80))
def test_leases_made_of_anything_are_refused_or_have_a_meaning(body: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode_entry(lease_frame(body)), LeasesChanged)


def test_a_count_beyond_the_body_is_refused() -> None:
    entry = LeasesChanged(1, LeaseEvent.RELEASED, (1, 2), node="n")
    frame, _ = decode_frame(encode_entry(entry, TS), 0)
    at = frame.data.index(b"n") + 1

    for wrong in (b"\xff\xff\xff\xff", b"\x03\x00\x00\x00"):
        with pytest.raises(ValueError, match="unreadable body"):
            decode_entry(lease_frame(frame.data[:at] + wrong + frame.data[at + 4 :]))


def test_a_type_of_a_later_version_has_no_meaning_here() -> None:
    assert decode_entry(Frame(FrameType(1), 0, 1, 1, TS, b"", b"", b"{}")) is None


@pytest.mark.parametrize("size", [FRAME_BYTES_MIN, FRAME_BYTES_MIN + 1, 1000])
def test_a_scar_fills_exactly_the_place_it_is_given(size: int) -> None:
    assert len(scar(size, TS)) == size
