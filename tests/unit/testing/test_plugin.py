"""The fixtures as a user's test run meets them: in a pytest of its own."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.testing.log import open_memory_log

pytest_plugins = ["pytester"]

# Installed, the plugin is found by its entry point; loading it by name as well is an error.
IS_INSTALLED = bool(entry_points(group="pytest11", name="penstock"))
LOAD = () if IS_INSTALLED else ("-p", "penstock.testing.plugin")


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *LOAD)


def test_penstock_log_is_a_real_log_that_is_closed_afterwards(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        import penstock

        seen = []

        def test_it_works(penstock_log, tmp_path):
            seen.append(penstock_log)
            assert penstock_log.append("t", [1, 2]).last_seq == 2
            assert [r.data for r in penstock_log.read("t").records] == [1, 2]
            assert (tmp_path / "penstock-data" / "wal").is_dir()

        def test_it_is_closed(penstock_log):
            assert penstock_log.topics() == []
            with pytest.raises(penstock.Closed):
                seen[0].topics()
        """,
    )

    result.assert_outcomes(passed=2)


def test_memory_log_stands_on_a_disk_and_a_clock_of_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import errno
        import pytest
        import penstock

        def test_time(memory_log, penstock_clock):
            memory_log.create("t", ttl_ms=1000)
            memory_log.append("t", [1])
            penstock_clock.advance(2000)
            assert memory_log.read("t").gap.reason == "ttl"

        def test_disk(memory_log, penstock_fs):
            memory_log.create("t", durability="fsync")
            penstock_fs.fail("sync", error=errno.EIO)
            with pytest.raises(penstock.LogFailed):
                memory_log.append("t", [1])

        def test_closing_it_oneself_is_fine(memory_log):
            memory_log.close()
        """,
    )

    result.assert_outcomes(passed=3)


def test_a_memory_log_is_found_again_on_the_same_disk() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs) as log:
        log.append("t", ["kept"])

    with open_memory_log(fs, FakeClock()) as log:
        records = log.read("t").records

    assert [record.data for record in records] == ["kept"]


def test_the_same_calls_leave_the_same_bytes() -> None:
    def left_behind() -> str:
        fs = MemoryFilesystem()
        with open_memory_log(fs) as log:
            log.append("t", [1, 2, 3])
        return fs.fingerprint()

    assert left_behind() == left_behind()
