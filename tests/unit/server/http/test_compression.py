"""gzip in and out, and never more than was agreed."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.errors import ApiError
from penstock.server.http import compression
from penstock.server.http.message import BATCH, Response

MIB = 1 << 20


@given(st.binary(max_size=3000), st.sampled_from([b"gzip", b" GZIP ", b"x-gzip"]))
def test_what_was_compressed_comes_back(body: bytes, encoding: bytes) -> None:
    assert compression.expanded(gzip.compress(body), encoding, MIB) == body


def test_no_encoding_is_no_work() -> None:
    assert compression.expanded(b"x", b"identity", 0) == b"x"


@pytest.mark.parametrize("encoding", [b"br", b"zstd", b"deflate", b"gzip, gzip"])
def test_other_encodings_are_refused(encoding: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        compression.expanded(b"", encoding, MIB)

    assert caught.value.status == 415


def test_a_body_cut_anywhere_is_invalid() -> None:
    whole = gzip.compress(b"some text that is long enough to be cut")
    for end in range(len(whole)):
        with pytest.raises(ApiError) as caught:
            compression.expanded(whole[:end], b"gzip", MIB)
        assert caught.value.status == 400


def test_bytes_behind_the_body_are_invalid() -> None:
    with pytest.raises(ApiError) as caught:
        compression.expanded(gzip.compress(b"a") + b"b", b"gzip", MIB)

    assert caught.value.status == 400


@pytest.mark.parametrize(("size", "limit"), [(2 * MIB, MIB), (64 * MIB, 128 * MIB)])
def test_a_bomb_is_too_large_by_size_or_by_ratio(size: int, limit: int) -> None:
    bomb = zlib.compressobj(9, wbits=31)
    body = bomb.compress(bytes(size)) + bomb.flush()

    with pytest.raises(ApiError) as caught:
        compression.expanded(body, b"gzip", limit)

    assert caught.value.status == 413


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"*", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.0, *", False),
        (b"identity", False),
        (b"", False),
    ],
)
def test_gzip_is_used_where_it_is_accepted(header: bytes, expected: bool) -> None:
    assert compression.is_accepted(header) is expected


def test_only_text_is_compressed_and_says_so() -> None:
    text = compression.compressed(Response(200, b"a" * 5000))
    frames = Response(200, b"a" * 5000, BATCH)

    assert gzip.decompress(text.body) == b"a" * 5000
    assert (b"content-encoding", b"gzip") in text.headers
    assert compression.compressed(frames) is frames


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1])
def test_a_body_of_any_size_comes_back_whole_or_is_too_large(size: int) -> None:
    """It is expanded a megabyte at a time; what ends on such a boundary ends there."""
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    packed = gzip.compress(body, 1)

    assert compression.expanded(packed, b"gzip", size) == body
    if size:
        with pytest.raises(ApiError) as caught:
            compression.expanded(packed, b"gzip", size - 1)
        assert caught.value.status == 413


@given(st.binary(max_size=300))
def test_no_bytes_whatever_break_the_expander(body: bytes) -> None:
    try:
        found = compression.expanded(body, b"gzip", MIB)
    except ApiError as error:
        status = error.status
    else:
        status = 0
        assert gzip.decompress(body) == found

    assert status in (0, 400, 413)
