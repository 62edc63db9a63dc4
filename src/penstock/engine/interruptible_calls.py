"""Calls whose caller may be interrupted: verbs of several steps run on threads of the log.

A signal handler (Ctrl-C) or another thread may raise an exception in a thread that calls a verb. It
ends the wait for the verb, not the verb: that is either complete or not begun. An append may be
interrupted at any point, and stays on its caller's thread.

In a log without threads the caller runs the verb itself. An asynchronous exception may then leave
partly changed state in memory, and closes the log for writing. The files stay valid.
"""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from penstock.atomic_steps import perform
from penstock.errors import PenstockError

P = ParamSpec("P")
T = TypeVar("T")

_THREADS_MAX: Final = 32  # more calls at a time than that wait for one another
_IDLE_S: Final = 10.0  # a thread that is not needed so long ends


class _Call:
    """A queued verb. `gate` is held until it is done; `turn` belongs to the thread that runs it."""

    __slots__ = ("error", "gate", "result", "turn", "verb")

    def __init__(self, verb: Callable[[], Any]) -> None:
        self.verb = verb
        self.gate = threading.Lock()
        self.gate.acquire()
        self.turn = threading.Lock()
        self.result: Any = None
        self.error: BaseException | None = None


class VerbThreads:
    """Safe from several threads. The first call starts a thread, and there is always one more
    thread than calls in progress: a caller only queues its call and waits."""

    def __init__(
        self,
        *,
        is_threaded: bool,
        is_locked: Callable[[], bool],
        on_interrupt: Callable[[BaseException], None],
    ) -> None:
        self._is_threaded = is_threaded
        self._on_interrupt = on_interrupt
        self._is_over = threading.Event()
        if not is_threaded:
            self._is_over.set()
        self._is_locked = is_locked  # does the caller hold a lock that verbs take?
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        # By thread: the call that it waits for, or waited for when it was interrupted.
        self._left: dict[int, _Call] = {}

    def run(self, verb: Callable[[], T]) -> T:
        """Call `verb`, on a thread of the log where possible; raises what it raises."""
        if not self._is_threaded:
            return self._run_here(verb)
        if (
            self._is_over.is_set()
            or threading.current_thread() in self._threads  # a verb that uses another
            or self._is_locked()
        ):
            return verb()
        if not self._threads:
            self._start()
        self.finish()
        call, me = _Call(verb), threading.get_ident()
        perform(((self._left.__setitem__, me, call), (self._calls.put, call)))
        if self._is_over.is_set() and call.turn.acquire(blocking=False):
            del self._left[me]  # stopped in between: no thread runs it
            return verb()
        with call.gate:  # open again for `finish`, should an exception come right here
            del self._left[me]
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def finish(self) -> None:
        """Wait for the verb of this thread whose wait was interrupted, if there is one: the
        caller's next operation must come after it."""
        if self._left and not self._is_over.is_set():
            me = threading.get_ident()
            call = self._left.get(me)
            if call is not None:
                with call.gate:
                    del self._left[me]

    def _run_here(self, verb: Callable[[], T]) -> T:
        try:
            return verb()
        except BaseException as error:
            if is_from_outside(error):
                self._on_interrupt(error)
            raise

    def stop(self) -> None:
        """Return when the calls in progress are done. Later ones run on their callers' threads."""
        self._is_over.set()
        self._calls.put(None)  # each thread passes it on to the next
        while self._threads:
            with self._lock:  # all of them are started
                threads = self._threads.copy()
            for thread in threads:
                thread.join()

    def _start(self) -> None:
        """On a caller's thread. The new thread registers itself, so this may be interrupted at any
        point."""
        with self._lock:
            if not self._threads:
                thread = self._new_thread()
                thread.start()
                self._threads.add(thread)

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._work, name="penstock-verbs", daemon=True)

    def _work(self) -> None:
        me = threading.current_thread()
        with self._lock:
            self._threads.add(me)
            self._idle += 1
        while self._next_call():
            pass
        with self._lock:
            self._threads.discard(me)

    def _next_call(self) -> bool:
        """Wait for a call and run it; false when this thread is to end."""
        try:
            call = self._calls.get(timeout=_IDLE_S)
        except queue.Empty:
            return not self._retires()
        if call is None:
            self._calls.put(None)
            return False
        with self._lock:
            self._idle -= 1
            if not self._idle and len(self._threads) < _THREADS_MAX:
                thread = self._new_thread()
                self._threads.add(thread)
                thread.start()
        if call.turn.acquire(blocking=False):
            try:
                call.result = call.verb()
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                call.error = error
            call.gate.release()
        with self._lock:
            self._idle += 1
        return True

    def _retires(self) -> bool:
        """One spare thread stays."""
        with self._lock:
            if self._idle < 2:
                return False
            self._idle -= 1
            return True


def is_from_outside(error: BaseException) -> bool:
    """True if this exception interrupted a call. Errors of the log and of the system (they have an
    errno) leave a valid state, and unknown arguments never reach the body of a verb."""
    if isinstance(error, PenstockError) or (isinstance(error, OSError) and error.errno is not None):
        return False
    raised_at = error.__traceback__
    return raised_at is None or raised_at.tb_next is not None


class _HasVerbThreads(Protocol):
    verb_threads: VerbThreads


class _HasCore(Protocol):
    @property
    def core(self) -> _HasVerbThreads: ...


def uninterrupted(
    verb: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], T]:
    """Decorator for verbs of `Log`: runs them on the threads of its core."""

    @functools.wraps(verb)
    def call(self: _HasCore, /, *args: P.args, **named: P.kwargs) -> T:
        return self.core.verb_threads.run(functools.partial(verb, self, *args, **named))

    return call
