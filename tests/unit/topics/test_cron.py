"""Cron text: the next time, zones and changes of the clock, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.errors import InvalidArgument
from penstock.topics import cron as crons


def _ms(*when: int) -> int:
    return round(datetime(*when, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "due"),
    [
        ("*/5 * * * *", None, (2026, 1, 1, 0, 0), (2026, 1, 1, 0, 5)),
        ("*/5 * * * *", None, (2026, 1, 1, 0, 4, 59), (2026, 1, 1, 0, 5)),
        ("0 3 * * *", "Europe/Berlin", (2026, 1, 1, 0, 0), (2026, 1, 1, 2, 0)),
        ("0 3 * * *", "Europe/Berlin", (2026, 7, 1, 0, 0), (2026, 7, 1, 1, 0)),
        ("@daily", None, (2026, 1, 31, 12, 0), (2026, 2, 1, 0, 0)),
        ("0 0 29 2 *", None, (2026, 3, 1), (2028, 2, 29)),
        # The night in which 02:30 does not exist: cron serves it when the hour is over.
        ("30 2 * * *", "Europe/Berlin", (2026, 3, 28, 12, 0), (2026, 3, 29, 1, 0)),
        # And the one in which it comes twice: it is served once.
        ("30 2 * * *", "Europe/Berlin", (2026, 10, 25, 0, 31), (2026, 10, 26, 1, 30)),
    ],
)
def test_the_next_time_is_the_first_past_the_given_one(
    cron: str, zone: str | None, after: tuple[int, ...], due: tuple[int, ...]
) -> None:
    text = crons.schedule(cron, zone)

    assert crons.next_ms(text, _ms(*after)) == _ms(*due)


def test_a_schedule_is_kept_as_text_and_comes_back_as_it_was_given() -> None:
    text = crons.schedule("0  3 * * *", "Europe/Berlin")

    assert crons.parts(text) == ("0 3 * * *", "Europe/Berlin")
    assert crons.parts(crons.schedule("@hourly")) == ("@hourly", "UTC")


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("", None),
        ("* * * *", None),
        ("61 * * * *", None),
        ("0 0 30 2 *", None),
        ("* * * * *\tUTC", None),
        (5, None),
        ("* " * 300, None),
        ("* * * * *", "Nowhere/Else"),
        ("* * * * *", "../etc/passwd"),
        ("* * * * *", 7),
    ],
)
def test_what_names_no_time_is_refused(cron: object, zone: object) -> None:
    with pytest.raises(InvalidArgument):
        crons.schedule(cron, zone)
