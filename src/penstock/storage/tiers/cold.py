"""The cold tier of one log: its owner, and how segments are read from it.

The first log that moves a segment to an empty tier claims it. Files in an unclaimed tier, or in the
tier of another log, are never used: topics of two logs may have the same ids. A tier that was
claimed and has no claim now is not mounted, whatever files are in its place.
"""

from __future__ import annotations

import functools
import time
from typing import Final

import msgspec

from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage import atomic
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.segments.maps import MapCache
from penstock.storage.tiers.cache import Cache
from penstock.storage.tiers.folder import FolderTier
from penstock.storage.tiers.objects import ObjectTier, is_url
from penstock.storage.tiers.tier import Tier
from penstock.storage.tiers.tier_inspection import TierFilesystem

CLAIM_KEY = "tier.json"  # in the tier: whose it is
WHERE_NAME = "cold.json"  # in the data directory: where the tier is
VERSION = 1
_VIEWS_MAX: Final = 6  # of an object store's they may be whole in memory
_AWAY_S: Final = 1.0  # whoever asks so soon after a failure is told the same
_HINT = "mount it, or check its address, credentials and network; nothing there was changed"


class _Claim(msgspec.Struct, frozen=True):
    format: int
    log_id: str


class TierLocation(msgspec.Struct, frozen=True):
    """The record of the tier in a data directory."""

    cold: str = ""
    claimed: bool = False  # it was ours once: without its claim it is away, not new


class Cold:
    """Safe from several threads."""

    def __init__(self, tier: Tier, log_id: bytes, cache: Cache | None = None) -> None:
        self.tier = tier
        self._log_id = log_id
        self._cache = cache
        self._views = MapCache(_VIEWS_MAX)
        self._is_ours = False
        self._away: tuple[float, OSError] | None = None

    def data(self, key: str) -> memoryview:
        """A whole file. ColdUnavailable when the tier cannot be reached, CorruptFrame when it has
        no such file."""
        view = self._views.get(key, memoryview, lambda: self._fetch(key))
        try:
            is_safe = self.tier.is_safe(key, len(view))
        except OSError:
            is_safe = False
        if not is_safe:
            self._views.forget(key)
            view = self._views.get(key, memoryview, lambda: self._fetch(key))
        return view

    def forget(self, key: str) -> None:
        """Drop the cached copy of this file."""
        self._views.forget(key)
        if self._cache is not None:
            self._cache.forget(key)

    def check(self) -> None:
        """Raise ColdUnavailable unless the tier is reachable and belongs to this log."""
        self._is_ours = False
        try:
            owner = owner_of(self.tier)
        except OSError as error:
            raise self._unavailable(error) from error
        if owner is None:
            raise Unclaimed(self.tier.where, reason="there is no cold tier here", hint=_HINT)
        if owner != self._log_id:
            raise ColdUnavailable(
                self.tier.where,
                reason=f"it is the cold tier of another log ({owner.hex()})",
                hint="give each log a folder or prefix of its own",
            )
        self._is_ours = True

    def claim(self) -> None:
        """Claim a tier that has no owner. Raises ColdUnavailable when it has one or is not empty,
        and OSError."""
        held = [key for key in self.tier.list("") if key != CLAIM_KEY]
        if held:
            raise ColdUnavailable(
                self.tier.where,
                reason=f"it is not a cold tier and not empty: it contains {held[0]}",
                hint="give the log a folder or prefix of its own",
            )
        text = msgspec.json.encode(_Claim(VERSION, self._log_id.hex()))
        self.tier.create(CLAIM_KEY, [text + b"\n"])
        self.check()

    def _fetch(self, key: str) -> memoryview:
        try:
            return self._asked(key)
        except FileNotFoundError:
            self.check()  # is it the file that is missing, or the tier?
            raise CorruptFrame(
                f"{self.tier.where}/{key}",
                reason="it is not in the cold tier",
                hint="restore it there, or run `penstock repair`, which reports its records lost",
            ) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def _asked(self, key: str) -> memoryview:
        now = time.monotonic()
        if self._away is not None and now < self._away[0]:
            raise self._away[1]
        if not self._is_ours:
            self.check()
        try:
            return self.tier.map(key) if self._cache is None else self._cache.map(self.tier, key)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._away = time.monotonic() + _AWAY_S, error
            raise

    def _unavailable(self, error: OSError) -> ColdUnavailable:
        reason = f"the cold tier cannot be read: {error.strerror or error}"
        return ColdUnavailable(str(error.filename or self.tier.where), reason=reason, hint=_HINT)


class Unclaimed(ColdUnavailable):
    """The tier has no claim: it is new, or something else is mounted."""


def owner_of(tier: Tier) -> bytes | None:
    """The log that a tier belongs to; None without a claim. Raises OSError, ColdUnavailable."""
    try:
        text = bytes(tier.map(CLAIM_KEY))
    except FileNotFoundError:
        return None
    if not text:
        return None  # a claim that a crash cut off
    try:
        return bytes.fromhex(msgspec.json.decode(text, type=_Claim).log_id)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ColdUnavailable(
            f"{tier.where}/{CLAIM_KEY}", reason=f"it cannot be read: {error}", hint=_HINT
        ) from None


def tier_at(where: str, fs: Filesystem) -> Tier:
    """The tier with this address: a URL, or a folder's absolute path."""
    return _objects(where.rstrip("/")) if is_url(where) else FolderTier(fs, where)


def filesystem_at(root: str) -> Filesystem:
    """The file system on which a data directory or a cold tier with this name is read."""
    return TierFilesystem(_objects(root.rstrip("/"))) if is_url(root) else OsFilesystem()


@functools.lru_cache(maxsize=16)
def _objects(url: str) -> ObjectTier:
    """Object stores are cached, so that their connections are reused."""
    return ObjectTier(url)


def remembered(fs: Filesystem, root: str) -> TierLocation:
    """The record of the cold tier in the data directory. ColdUnavailable when it is unreadable."""
    path = f"{root}/{WHERE_NAME}"
    try:
        if not fs.exists(path):
            return TierLocation()
        return msgspec.json.decode(bytes(fs.map(path)), type=TierLocation)
    except FileNotFoundError:
        return TierLocation()
    except msgspec.MsgspecError as error:
        raise ColdUnavailable(
            path, reason=f"it cannot be read: {error}", hint="open the log with its cold_dir"
        ) from None


def remember(fs: Filesystem, root: str, where: TierLocation) -> None:
    """Durable when this returns."""
    text = msgspec.json.encode(where)
    atomic.write_whole(fs, f"{root}/{WHERE_NAME}", [text + b"\n"])
    fs.sync_dir(root)
