"""The thread that copies records through the routers, topics of high priority first."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.clock import Clock
from penstock.engine.handle import Handle
from penstock.runtime.effective_priority import effective_priority
from penstock.runtime.priority_scheduler import ReadySet

_RETRY_S = 0.05  # for what could not be sent: a full destination, a full queue


class RouterThread:
    """Topics with records to copy are marked when they change and served by priority. Without a
    thread records are copied only on request."""

    def __init__(self, clock: Clock, send: Callable[[Handle], bool], *, is_threaded: bool) -> None:
        self._clock = clock
        self._send = send
        self._is_threaded = is_threaded
        self._wake = threading.Condition()
        self._ready: ReadySet[Handle] = ReadySet()
        self._later: set[Handle] = set()  # to be tried again
        self._listeners: dict[Handle, Callable[[], None]] = {}
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self.priority_of: Callable[[Handle], int] = _configured
        self.steps_total = 0

    def watch(self, source: Handle) -> None:
        """Copy the new records of this topic."""

        def changed() -> None:
            self.mark(source)

        self._listeners[source] = changed
        source.listen(changed)
        if self._is_threaded and self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(target=self._run, name="penstock-routers", daemon=True)
            self._thread.start()

    def unwatch(self, source: Handle) -> None:
        listener = self._listeners.pop(source, None)
        if listener is not None:
            source.unlisten(listener)
        with self._wake:
            self._later.discard(source)
            self._ready.forget(source)

    def mark(self, source: Handle) -> None:
        if self._thread is None:
            return
        with self._wake:
            self._ready.mark(source, self.priority_of(source), self._now_ms(), is_router=True)
            self._wake.notify()

    def defer(self, is_deferring: bool) -> None:
        """Under pressure routers are one band lower, and the lowest band waits."""
        with self._wake:
            self._ready.defer(is_deferring, self._now_ms())

    @property
    def depth(self) -> int:
        """Topics that wait to be served."""
        return self._ready.depth

    def depths(self) -> tuple[int, ...]:
        """The same for each band, from the lowest up."""
        return self._ready.depths()

    def stop(self) -> None:
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                source = self._ready.take(self._now_ms())
                while source is None and not self._is_stopping:
                    timeout_s = _RETRY_S if self._later or len(self._ready) else None
                    self._clock.wait(self._wake, timeout_s)
                    now_ms = self._now_ms()
                    for late in self._later:
                        self._ready.mark(late, self.priority_of(late), now_ms, is_router=True)
                    self._later.clear()
                    source = self._ready.take(now_ms)
                if self._is_stopping or source is None:
                    return
            before = sum(route.staged for route in source.outlets)
            is_more = self._send(source)
            self.steps_total += 1
            with self._wake:
                now_ms = self._now_ms()
                self._ready.done(source, now_ms)
                if is_more and sum(route.staged for route in source.outlets) != before:
                    self._ready.mark(source, self.priority_of(source), now_ms, is_router=True)
                elif is_more:
                    self._later.add(source)

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000


def _configured(handle: Handle) -> int:
    config = handle.topic.config
    return effective_priority(
        config.priority, is_auto=config.auto_priority, last_read_ms=None, now_ms=0
    )
