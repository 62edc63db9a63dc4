"""The tier of one log: whose it is, and how its segments are read from there.

A tier is claimed by the first log that moves something to it. What lies in one that nobody has
claimed, or that is another log's, is never taken for ours: topics of two logs may well have the
same numbers.
"""

from __future__ import annotations

import functools
import threading

import msgspec

from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage import atomic
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.tiers.cache import Cache
from penstock.storage.tiers.folder import FolderTier
from penstock.storage.tiers.looking import TierFilesystem
from penstock.storage.tiers.objects import ObjectTier, is_url
from penstock.storage.tiers.tier import Tier

CLAIM_KEY = "tier.json"  # in the tier: whose it is
WHERE_NAME = "cold.json"  # in the data directory: where the tier is
VERSION = 1
_HINT = "mount it, or check its address, credentials and network; nothing there was changed"


class _Claim(msgspec.Struct, frozen=True):
    format: int
    log_id: str


class _Where(msgspec.Struct, frozen=True):
    cold: str


class Cold:
    """Safe from several threads."""

    def __init__(self, tier: Tier, log_id: bytes, cache: Cache | None = None) -> None:
        self.tier = tier
        self._log_id = log_id
        self._cache = cache
        self._is_ours = False
        self._lock = threading.Lock()

    def data(self, key: str) -> memoryview:
        """A whole file. ColdUnavailable when the tier cannot be asked, CorruptFrame when it has
        no such file."""
        try:
            self._check()
            return self.tier.map(key) if self._cache is None else self._cache.map(self.tier, key)
        except FileNotFoundError:
            raise CorruptFrame(
                f"{self.tier.where}/{key}",
                reason="it is not in the cold tier",
                hint="restore it there, or run `penstock repair`, which reports its records lost",
            ) from None
        except OSError as error:
            raise self._unavailable(error) from error

    def forget(self, key: str) -> None:
        """What was fetched of this file is not it any more."""
        if self._cache is not None:
            self._cache.forget(key)

    def is_safe(self, key: str, size: int) -> bool:
        """May a view that `data` gave be touched?"""
        try:
            return self.tier.is_safe(key, size)
        except OSError:
            return False

    def claim(self) -> None:
        """Make the tier ours if it is nobody's. ColdUnavailable when it is somebody's."""
        try:
            self._check()
        except _Unclaimed:
            text = msgspec.json.encode(_Claim(VERSION, self._log_id.hex()))
            self.tier.put(CLAIM_KEY, [text + b"\n"])
            self._check()

    def _check(self) -> None:
        with self._lock:
            if self._is_ours:
                return
            owner = owner_of(self.tier)
            if owner is None:
                raise _Unclaimed(self.tier.where, reason="there is no cold tier here", hint=_HINT)
            if owner != self._log_id:
                raise ColdUnavailable(
                    self.tier.where,
                    reason=f"it is the cold tier of another log ({owner.hex()})",
                    hint="give each log a folder or prefix of its own",
                )
            self._is_ours = True

    def _unavailable(self, error: OSError) -> ColdUnavailable:
        reason = f"the cold tier cannot be read: {error.strerror or error}"
        return ColdUnavailable(str(error.filename or self.tier.where), reason=reason, hint=_HINT)


class _Unclaimed(ColdUnavailable):
    """Nobody has moved anything here yet, or what is mounted here is something else."""


def owner_of(tier: Tier) -> bytes | None:
    """The log that a tier belongs to; None when it is nobody's. OSError, ColdUnavailable."""
    try:
        text = bytes(tier.map(CLAIM_KEY))
    except FileNotFoundError:
        return None
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


def remembered(fs: Filesystem, root: str) -> str:
    """Where the data directory says that its cold tier is; empty when it has none."""
    path = f"{root}/{WHERE_NAME}"
    try:
        if not fs.exists(path):
            return ""
        return msgspec.json.decode(bytes(fs.map(path)), type=_Where).cold
    except FileNotFoundError:
        return ""
    except msgspec.MsgspecError as error:
        raise ColdUnavailable(
            path, reason=f"it cannot be read: {error}", hint="open the log with its cold_dir"
        ) from None


def remember(fs: Filesystem, root: str, where: str) -> None:
    """Durable when this returns."""
    text = msgspec.json.encode(_Where(where))
    atomic.write_whole(fs, f"{root}/{WHERE_NAME}", [text + b"\n"])
    fs.sync_dir(root)
