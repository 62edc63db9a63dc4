"""An object store: S3 and compatible stores, Google Cloud Storage, Azure.

Credentials and endpoints come from the environment variables of each cloud's own tools
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …); Penstock stores none.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from penstock.errors import InvalidArgument
from penstock.storage.fs import Buffer
from penstock.storage.tiers.tier import Keys

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_RETRIES: Final = 3
_PATIENCE: Final = timedelta(seconds=20)


def is_url(where: str) -> bool:
    """True if this names an object store, and not a folder."""
    scheme, mark, _ = where.partition("://")
    return bool(mark) and scheme.lower() in SCHEMES


class ObjectTier:
    """The objects below one prefix of a bucket. No request is sent before the first call."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._store: Any = None
        self._calls: Any = None

    def connect(self) -> None:
        """Raises InvalidArgument for an invalid address, or when the library is missing."""
        if self._store is not None:
            return
        try:
            import obstore
            from obstore import store
        except ImportError:
            raise InvalidArgument(
                f'{self._url} is an object store: pip install "penstock[objects]" to reach it'
            ) from None
        retry: Any = {"max_retries": _RETRIES, "retry_timeout": _PATIENCE}
        try:
            made = store.from_url(self._url, retry_config=retry)
        except Exception as error:
            text = f"{self._url} cannot be used as an object store: {error}"
            raise InvalidArgument(text) from error
        self._calls = obstore
        self._store = made

    @property
    def where(self) -> str:
        return self._url

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        with self._as_os_error(key):
            self._calls.put(self._store, key, bytes(data))

    def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with self._as_os_error(key):
            self._calls.put(self._store, key, b"".join(parts), mode="create")

    def map(self, key: str) -> memoryview:
        with self._as_os_error(key):
            return memoryview(bytes(self._calls.get(self._store, key).bytes()))

    def length(self, key: str) -> int:
        with self._as_os_error(key):
            return int(self._calls.head(self._store, key)["size"])

    def is_safe(self, key: str, size: int) -> bool:
        """A view is an independent copy."""
        return True

    def list(self, prefix: str) -> Keys:
        with self._as_os_error(prefix):
            pages = self._calls.list(self._store, prefix=prefix or None)
            return sorted(str(one["path"]) for page in pages for one in page)

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._as_os_error(key):
            self._calls.delete(self._store, key)

    @contextlib.contextmanager
    def _as_os_error(self, key: str) -> Iterator[None]:
        """Convert the errors of the library to OSError."""
        address = f"{self._url}/{key}"
        try:
            self.connect()
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "no such object", address) from None
        except Exception as error:
            first, _, _ = str(error).partition("\n")
            if type(error).__name__ == "AlreadyExistsError":
                raise FileExistsError(errno.EEXIST, "the object exists already", address) from None
            raise OSError(errno.EIO, first, address) from error
