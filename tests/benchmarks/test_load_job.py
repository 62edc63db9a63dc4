"""Jobs and loads travel as JSON and come out as they went in."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.load_job import Drive, Job, Load, Watch, percentile


@pytest.mark.parametrize(
    "job", [Drive([b"\xff\x00"], 2, 0.5, size=7), Watch([b"a", b"b"], b"w", 5, 1.0, port=4)]
)
def test_a_job_arrives_as_it_was_sent(job: Job) -> None:
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


@pytest.mark.parametrize(("share", "value"), [(0.5, 51.0), (0.99, 100.0), (1.0, 100.0)])
def test_a_percentile_is_a_value_that_was_seen(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(1, 101)], share) == value


def test_nothing_seen_has_no_percentile_and_no_rate() -> None:
    assert percentile([], 0.5) == 0
    assert Load().per_second == 0


def test_cpu_time_is_shared_out_over_the_answers() -> None:
    load = Load(answers=1_000, seconds=2.0, server_cores=0.5)

    assert load.server_us == pytest.approx(1_000)
