"""The threads of all projections of a log: a few that fold, and one that saves."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final

from penstock.clock import Clock
from penstock.errors import Closed, ProjectionFailed
from penstock.projections.runner import ProjectionRunner

_THREADS_MAX: Final = 2
_TURN_RECORDS: Final = 20_000  # then the next projection has its turn
SPREAD: Final = 1 / 2  # of the interval, for the saves of all projections
_RETRY_S: Final = 1.0  # for a topic that cannot be read now: a cold tier that is away
_log = logging.getLogger("penstock")


class ProjectionPool:
    """Safe from several threads. A thread is started when there is work for it, and sleeps without
    a timeout when there is none. Without threads, everything is done by readers and in `upkeep`.
    """

    def __init__(self, clock: Clock, *, is_threaded: bool) -> None:
        self._clock = clock
        self._is_threaded = is_threaded
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._timer = threading.Condition(self._lock)
        self._runners: dict[ProjectionRunner, bool] = {}  # whether it is being folded
        self._ready: deque[ProjectionRunner] = deque()
        self._again: set[ProjectionRunner] = set()  # marked while it was folded
        self._retries: dict[ProjectionRunner, float] = {}
        self._folders: list[threading.Thread] = []
        self._saver: threading.Thread | None = None
        self._sleeps_until = 0.0  # the saver; infinite when it waits for work
        self._idle = 0
        self._is_stopping = False

    def add(self, runner: ProjectionRunner) -> None:
        """Fold it from now on."""
        with self._lock:
            self._runners[runner] = False
        self.mark(runner)

    def remove(self, runner: ProjectionRunner) -> None:
        """No new turn of it begins after this."""
        with self._lock:
            self._runners.pop(runner, None)
            self._again.discard(runner)
            self._retries.pop(runner, None)
            if runner in self._ready:
                self._ready.remove(runner)

    def mark(self, runner: ProjectionRunner) -> None:
        """Its topic has changed. Waits for nothing; called on threads of the log."""
        if not self._is_threaded:
            return
        with self._lock:
            if self._is_stopping or runner not in self._runners or runner in self._ready:
                return
            if self._runners[runner]:
                self._again.add(runner)
                return
            self._ready.append(runner)
            self._start()
            self._work.notify()

    def _start(self) -> None:
        if self._idle < len(self._ready) and len(self._folders) < _THREADS_MAX:
            name = f"penstock-projections-{len(self._folders)}"
            thread = threading.Thread(target=self._fold_all, name=name, daemon=True)
            self._folders.append(thread)
            thread.start()
        if self._saver is None:
            self._saver = threading.Thread(
                target=self._save_all, name="penstock-projection-saver", daemon=True
            )
            self._saver.start()

    def upkeep(self) -> None:
        """Without threads: fold what is pending, and save what is due."""
        with self._lock:
            runners = list(self._runners)
        for runner in runners:
            self._fold(runner, None)
            due_s = runner.save_due_s
            if due_s is not None and due_s <= self._clock.monotonic():
                runner.save()

    def stop(self) -> None:
        """Return when the threads have ended. A page or a save in progress is finished first."""
        with self._lock:
            self._is_stopping = True
            self._ready.clear()
            self._work.notify_all()
            self._timer.notify_all()
            for runner in self._runners:
                runner.hurry()
            threads = [*self._folders, *([self._saver] if self._saver is not None else [])]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    # The threads.

    def _fold_all(self) -> None:
        while True:
            with self._lock:
                while not self._ready and not self._is_stopping:
                    self._idle += 1
                    self._clock.wait(self._work, None)
                    self._idle -= 1
                if self._is_stopping:
                    return
                runner = self._ready.popleft()
                self._runners[runner] = True
            is_done = self._fold(runner, _TURN_RECORDS)
            with self._lock:
                if runner not in self._runners:
                    continue
                self._runners[runner] = False
                if not is_done or runner in self._again:
                    self._again.discard(runner)
                    self._ready.append(runner)
                due_s = runner.save_due_s
                if due_s is not None and due_s < self._sleeps_until:
                    self._timer.notify()

    def _fold(self, runner: ProjectionRunner, most: int | None) -> bool:
        """One turn; true when nothing is left to do now."""
        try:
            return runner.catch_up(most)
        except ProjectionFailed:
            pass  # its status has the reason
        except Closed:
            self.remove(runner)
        except Exception:  # noqa: BLE001 - a thread of all of them goes on with the others
            _log.exception("a projection cannot read its topic now; it tries again")
            with self._lock:
                self._retries[runner] = self._clock.monotonic() + _RETRY_S
                self._timer.notify()
        return True

    def _save_all(self) -> None:
        while True:
            with self._lock:
                due = self._next_due()
                while due is None and not self._is_stopping:
                    self._clock.wait(self._timer, self._timeout_s())
                    self._sleeps_until = 0.0
                    due = self._next_due()
                if self._is_stopping or due is None:
                    return
                spread = SPREAD / max(1, len(self._runners))
            due.save(spread)

    def _next_due(self) -> ProjectionRunner | None:
        """A runner to save now. Starts the retries that are due."""
        now_s = self._clock.monotonic()
        for runner in [one for one, at_s in self._retries.items() if at_s <= now_s]:
            del self._retries[runner]
            if runner in self._runners and runner not in self._ready:
                self._ready.append(runner)
                self._work.notify()
        for runner in self._runners:
            due_s = runner.save_due_s
            if due_s is not None and due_s <= now_s:
                return runner
        return None

    def _timeout_s(self) -> float | None:
        times = [due for runner in self._runners if (due := runner.save_due_s) is not None]
        times += self._retries.values()
        self._sleeps_until = min(times, default=float("inf"))
        return max(0.0, self._sleeps_until - self._clock.monotonic()) if times else None
