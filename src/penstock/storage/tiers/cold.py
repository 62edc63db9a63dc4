"""The tier of one log: whose it is, and how its segments are read from there.

A tier is claimed by the first log that moves something to it, and only while it is empty. What
lies in one that nobody has claimed, or that is another log's, is never taken for ours: topics of
two logs may well have the same numbers. A tier that was claimed once and shows no claim is not
mounted, whatever else may lie in its place.
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
from penstock.storage.tiers.looking import TierFilesystem
from penstock.storage.tiers.objects import ObjectTier, is_url
from penstock.storage.tiers.tier import Tier

CLAIM_KEY = "tier.json"  # in the tier: whose it is
WHERE_NAME = "cold.json"  # in the data directory: where the tier is
VERSION = 1
_VIEWS_MAX: Final = 6  # of an object store's they may be whole in memory
_AWAY_S: Final = 1.0  # whoever asks so soon after a failure is told the same
_HINT = "mount it, or check its address, credentials and network; nothing there was changed"


class _Claim(msgspec.Struct, frozen=True):
    format: int
    log_id: str


class Where(msgspec.Struct, frozen=True):
    """What a data directory remembers of its tier."""

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
        """A whole file. ColdUnavailable when the tier cannot be asked, CorruptFrame when it has
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
        """What was fetched of this file is not it any more."""
        self._views.forget(key)
        if self._cache is not None:
            self._cache.forget(key)

    def check(self) -> None:
        """Raise ColdUnavailable unless the tier is there and ours, as of now."""
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
        """Make the tier ours, which is nobody's yet. ColdUnavailable when it is somebody's, or
        has something in it. OSError."""
        held = [key for key in self.tier.list("") if key != CLAIM_KEY]
        if held:
            raise ColdUnavailable(
                self.tier.where,
                reason=f"it is not a cold tier, and not empty ({held[0]} is in it)",
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
    """Nobody has moved anything here yet, or what is mounted here is something else."""


def owner_of(tier: Tier) -> bytes | None:
    """The log that a tier belongs to; None when it is nobody's. OSError, ColdUnavailable."""
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
    """Where a data directory, or the cold part of one, is read by this name."""
    return TierFilesystem(_objects(root.rstrip("/"))) if is_url(root) else OsFilesystem()


@functools.lru_cache(maxsize=16)
def _objects(url: str) -> ObjectTier:
    """Connections are kept for the next who asks."""
    return ObjectTier(url)


def remembered(fs: Filesystem, root: str) -> Where:
    """What the data directory says of its cold tier. ColdUnavailable when that is unreadable."""
    path = f"{root}/{WHERE_NAME}"
    try:
        if not fs.exists(path):
            return Where()
        return msgspec.json.decode(bytes(fs.map(path)), type=Where)
    except FileNotFoundError:
        return Where()
    except msgspec.MsgspecError as error:
        raise ColdUnavailable(
            path, reason=f"it cannot be read: {error}", hint="open the log with its cold_dir"
        ) from None


def remember(fs: Filesystem, root: str, where: Where) -> None:
    """Durable when this returns."""
    text = msgspec.json.encode(where)
    atomic.write_whole(fs, f"{root}/{WHERE_NAME}", [text + b"\n"])
    fs.sync_dir(root)
