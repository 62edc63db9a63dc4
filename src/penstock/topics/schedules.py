"""When a recurring job is due: cron text and a time zone, and the next time after a given one."""

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
    """Cron text and zone as one text, checked: that is how it is kept."""
    if not isinstance(cron, str) or len(cron) > _TEXT_CHARS_MAX or "\t" in cron:
        raise InvalidArgument(f"cron is text like '*/5 * * * *', not {cron!r:.100}")
    if zone is not None and not isinstance(zone, str):
        raise InvalidArgument(f"a time zone is text like 'Europe/Berlin', not {zone!r:.100}")
    text = f"{' '.join(cron.split())}\t{zone or 'UTC'}"
    next_ms(text, 0)
    return text


def parts(text: str) -> tuple[str, str]:
    """(cron text, zone)"""
    cron, _, zone = text.partition("\t")
    return cron, zone or "UTC"


def next_ms(text: str, after_ms: int) -> int:
    """The first time past `after_ms` that the text names, in milliseconds since 1970. Local
    times that a change of the clock leaves out or repeats are served as by cron."""
    cron, zone = parts(text)
    try:
        at = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(_zone(zone))
        return round(next(CronSim(_WORDS.get(cron, cron), at)).timestamp() * 1000)
    except CronSimError as error:
        raise InvalidArgument(f"cron {cron!r}: {str(error).lower()}") from None
    except (StopIteration, OverflowError, OSError, ValueError):
        raise InvalidArgument(f"cron {cron!r} names no time that ever comes") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument(f"there is no time zone {name!r:.100}") from None
