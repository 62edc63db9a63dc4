"""Schedules of recurring jobs: cron text, a time zone, and the next time after a given one."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.errors import InvalidArgument

_TEXT_CHARS_MAX = 200
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


def schedule(cron: object, zone: object = None) -> str:
    """Cron text and zone as one checked text, which is how a schedule is stored."""
    if not isinstance(cron, str) or len(cron) > _TEXT_CHARS_MAX or "\t" in cron:
        raise InvalidArgument(f"invalid cron {cron!r:.100}: expected text like '*/5 * * * *'")
    if zone is not None and not isinstance(zone, str):
        raise InvalidArgument(f"invalid time zone {zone!r:.100}: expected text like Europe/Berlin")
    text = f"{' '.join(cron.split())}\t{zone or 'UTC'}"
    next_ms(text, 0)
    return text


def parts(text: str) -> tuple[str, str]:
    """(cron text, zone)"""
    cron, _, zone = text.partition("\t")
    return cron, zone or "UTC"


def next_ms(text: str, after_ms: int) -> int:
    """The first time after `after_ms` that matches, in milliseconds since 1970. Local times that a
    clock change skips or repeats are handled as by cron."""
    cron, zone = parts(text)
    try:
        at = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(_zone(zone))
        return round(next(CronSim(_WORDS.get(cron, cron), at)).timestamp() * 1000)
    except CronSimError as error:
        raise InvalidArgument(f"cron {cron!r}: {str(error).lower()}") from None
    except (StopIteration, OverflowError, OSError, ValueError) as error:
        if _is_from_outside(error):
            raise
        raise InvalidArgument(f"cron {cron!r} never matches a time") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if _is_from_outside(error):
            raise
        raise InvalidArgument(f"unknown time zone {name!r:.100}") from None


def _is_from_outside(error: Exception) -> bool:
    """True for an OSError that the system did not raise, such as the TimeoutError of a signal
    handler."""
    return isinstance(error, OSError) and error.errno is None
