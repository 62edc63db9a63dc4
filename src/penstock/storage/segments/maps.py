"""A bounded set of open mappings, shared by all segments of a log."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

View = TypeVar("View")


class MapCache:
    """Evicts the least recently used first. An evicted view stays valid for its holders; the memory
    is unmapped when the last holder drops it."""

    def __init__(self, views_max: int) -> None:
        self._views_max = views_max
        self._views: OrderedDict[tuple[str, type], object] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str, kind: type[View], load: Callable[[], View]) -> View:
        """The view of `path`, loaded if necessary."""
        key = (path, kind)
        with self._lock:
            view = self._views.get(key)
            if view is not None:
                self._views.move_to_end(key)
        if isinstance(view, kind):
            return view
        loaded = load()
        with self._lock:
            self._views[key] = loaded
            while len(self._views) > self._views_max:
                self._views.popitem(last=False)
        return loaded

    def forget(self, prefix: str) -> None:
        """Drop the views of removed files; all views with an empty prefix."""
        with self._lock:
            for key in [key for key in self._views if key[0].startswith(prefix)]:
                del self._views[key]
