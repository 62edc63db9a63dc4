"""The thread that syncs on a tick, while its shard goes on writing."""

from __future__ import annotations

import threading
from collections.abc import Callable


class TickThread:
    """Started by the first tick. `sync` runs on it, once for each tick. A bug in it is passed to
    `stop_for_bug`, and `ended` is called after it in any case."""

    def __init__(
        self,
        name: str,
        sync: Callable[[], None],
        stop_for_bug: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        self._name = name
        self._sync = sync
        self._stop_for_bug = stop_for_bug
        self._ended = ended
        self.is_under_way = False  # set on the shard's own thread, cleared on this one
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        # An exception from outside (Ctrl-C) may come between acquiring a Condition and entering the
        # block, on a lock of C it cannot: `stop` takes this lock, not the condition.
        self._wake_lock = threading.RLock()
        self._wake = threading.Condition(self._wake_lock)
        self._round_lock = threading.Lock()  # held during a tick

    def begin(self) -> bool:
        """Begin a tick; none is under way. False when the system gives no thread for it. On the
        shard's own thread."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        with self._wake_lock:
            self.is_under_way = True
            self._wake.notify_all()
        return True

    def wait(self) -> None:
        """Return when the tick has ended that is under way."""
        with self._round_lock:
            pass

    def stop(self) -> None:
        """Let a tick end that has begun, and join the thread. May be repeated."""
        thread = self._thread
        if thread is not None:
            with self._wake_lock:
                self._is_stopping = True
                # All, though one thread waits: a `notify` that was interrupted leaves a waiter
                # behind that is woken already, and would be the one to be woken again.
                self._wake.notify_all()
            thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self.is_under_way or self._is_stopping):
                    self._wake.wait()
            if self._is_stopping:
                return
            try:
                with self._round_lock:
                    self._sync()
            except BaseException as bug:  # noqa: BLE001 - a silent death would end all syncs
                self._stop_for_bug(bug)
            finally:
                self.is_under_way = False
                self._ended()
