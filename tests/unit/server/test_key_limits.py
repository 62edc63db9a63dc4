"""What one key may have at a time, and all keys together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.auth import ANYONE, ApiKey
from penstock.server.errors import ApiError
from penstock.server.key_limits import OpenStreams, RequestLimit, begin_request, end_request
from penstock.server.settings import ServerSettings


@pytest.mark.parametrize("most", [0, 1, 3])
def test_requests_are_counted_for_each_key(most: int) -> None:
    limit, one, other = RequestLimit(most), ApiKey(b"1"), ApiKey(b"2")

    for _ in range(most or 5):
        limit.check(one)
        begin_request(one)

    if most:
        with pytest.raises(ApiError, match=f"{most} requests of this key are in flight") as caught:
            limit.check(one)
        assert (caught.value.status, caught.value.code) == (429, "throttled")
    limit.check(other)
    end_request(one)
    limit.check(one)


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=40))
def test_streams_are_counted_in_all_and_for_each_key(steps: list[tuple[bool, int]]) -> None:
    settings = ServerSettings(max_sse_connections=4, max_sse_connections_per_key=2)
    streams = OpenStreams(settings)
    keys = [ApiKey(b"1"), ApiKey(b"2"), ANYONE]
    before = ANYONE.streams
    open_ = [0, 0, 0]

    for is_coming, which in steps:
        if is_coming:
            is_full = sum(open_) >= 4 or (which < 2 and open_[which] >= 2)
            if is_full:
                with pytest.raises(ApiError) as caught:
                    streams.enter(keys[which])
                assert caught.value.status == 429
                limit = "max_sse_connections" if sum(open_) >= 4 else "max_sse_connections_per_key"
                assert caught.value.detail == {"limit": limit, "max": 4 if sum(open_) >= 4 else 2}
            else:
                streams.enter(keys[which])
                open_[which] += 1
        elif open_[which]:
            streams.leave(keys[which])
            open_[which] -= 1
        assert streams.count == sum(open_)
    for which, count in enumerate(open_):
        for _ in range(count):
            streams.leave(keys[which])

    assert ANYONE.streams == before
