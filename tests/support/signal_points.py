"""Raise an exception at the nth place where CPython runs signal handlers.

CPython runs them at the beginning of a function (`RESUME`), at the end of a round of a loop
(`JUMP_BACKWARD`) and after a call of a C function returns. It never runs them inside one C call,
between `__enter__` of a C lock and the body of its `with`, or between the end of a `try` and its
`finally`. A trace function that sees every opcode raises at exactly these places, and finds the
same place again in every run of the same code.

Only the calling thread is traced. `penstock.testing`, the tests and imports are left out: they
stand for the operating system and for the caller.
"""

from __future__ import annotations

import _weakrefset
import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import penstock

SOURCE = str(Path(penstock.__file__).parent)
# A weak reference's callback swallows whatever is raised in it.
_SYSTEM = (f"{SOURCE}/testing/", "<frozen importlib", _weakrefset.__file__)
_TESTS = str(Path(__file__).parents[1])
_MUTANTS = str(Path(__file__).with_name("interrupt_mutants.py"))
_CALLS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX"}


class Interrupted(BaseException):
    """As KeyboardInterrupt, but raised by nobody else."""


class RaisedBySignal(Exception):
    """What a signal handler of an application may raise."""


class AlarmTimeout(TimeoutError):
    """The usual exception of a SIGALRM handler. It is an OSError."""


KINDS: tuple[type[BaseException], ...] = (Interrupted, RaisedBySignal, AlarmTimeout)


class _Code:
    """Which opcodes of a code object matter, by offset."""

    def __init__(self, code: CodeType) -> None:
        self.calls: set[int] = set()
        self.jumps: set[int] = set()
        self.resumes: set[int] = set()
        handlers = dis._parse_exception_table(code)  # type: ignore[attr-defined]

        def handler(offset: int) -> int | None:
            return next((one.target for one in handlers if one.start <= offset < one.end), None)

        instructions = list(dis.get_instructions(code))
        following = [*instructions[1:], instructions[-1]]
        for one, after in zip(instructions, following, strict=True):
            if one.opname in _CALLS:
                # An exception after the call goes to the handler of the call, and one that is
                # raised here to that of the next opcode: they differ in `with lock: return f()`.
                if handler(one.offset) == handler(after.offset):
                    self.calls.add(one.offset)
            elif one.opname.startswith("JUMP_BACKWARD") and "NO_INTERRUPT" not in one.opname:
                self.jumps.add(one.offset)
            elif one.opname == "RESUME":
                self.resumes.add(one.offset)


_codes: dict[CodeType, _Code] = {}


def _code_of(frame: FrameType) -> _Code:
    known = _codes.get(frame.f_code)
    if known is None:
        known = _codes[frame.f_code] = _Code(frame.f_code)
    return known


class Interrupter:
    """Raises `kind` at the nth place; 0 counts the places only."""

    def __init__(self, nth: int, kind: type[BaseException]) -> None:
        self.nth = nth
        self.count = 0
        self.place = ""
        self._kind = kind
        self._frames: list[_FrameTrace] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        """A function begins, or a generator goes on."""
        if event != "call":
            return None
        if _is_of_system(frame):
            return None  # as a system call: its caller goes on as after a C function
        caller = self._frames[-1] if self._frames else None
        if caller is not None and frame.f_code.co_name != "__init__":
            caller.returns_from_c = False  # the call was one of Python code, inlined
        file = frame.f_code.co_filename
        if file.startswith(_TESTS) and file != _MUTANTS:
            return None
        code = _code_of(frame)
        # A generator that gets an exception thrown into it does not pass a RESUME.
        if frame.f_lasti < 0 or frame.f_lasti in code.resumes:
            self.pass_place(frame)
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        trace = _FrameTrace(self, code)
        self._frames.append(trace)
        return trace

    def pass_place(self, frame: FrameType) -> None:
        self.count += 1
        if self.count == self.nth:
            sys.settrace(None)
            self.place = place_of(frame)
            raise self._kind(f"from outside, at {self.place}")

    def leave(self) -> None:
        self._frames.pop()


class _FrameTrace:
    """Follows one call of one function."""

    __slots__ = ("_code", "_interrupter", "returns_from_c")

    def __init__(self, interrupter: Interrupter, code: _Code) -> None:
        self._interrupter = interrupter
        self._code = code
        self.returns_from_c = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            at = frame.f_lasti
            if self.returns_from_c:
                self.returns_from_c = False
                self._interrupter.pass_place(frame)
            if at in self._code.calls:
                self.returns_from_c = True
            elif at in self._code.jumps:
                self._interrupter.pass_place(frame)
        elif event == "exception":
            self.returns_from_c = False  # a call that raised: the handler follows
        elif event == "return":
            self._interrupter.leave()
        return self


def _is_of_system(frame: FrameType) -> bool:
    at: FrameType | None = frame
    while at is not None:
        file = at.f_code.co_filename
        if file.startswith(_SYSTEM):
            return True
        if file.startswith(_TESTS) and file != _MUTANTS:
            return False
        at = at.f_back
    return False


def place_of(frame: FrameType) -> str:
    """file:line function, and the callers of our code that led there."""
    names: list[str] = []
    at: FrameType | None = frame
    while at is not None and len(names) < 4:
        file = at.f_code.co_filename
        if file.startswith(SOURCE + "/"):
            names.append(f"{file.removeprefix(SOURCE + '/')}:{at.f_lineno} {at.f_code.co_name}")
        elif not names:
            names.append(f"{Path(file).name}:{at.f_lineno} {at.f_code.co_name}")
        at = at.f_back
    return " < ".join(names)


class Outcome:
    """What came of an interrupted call: where it was interrupted (nothing: it came to its end
    first), how many places it passed, its answer, and the exception that its caller got."""

    def __init__(self, interrupter: Interrupter) -> None:
        self.place = interrupter.place
        self.count = interrupter.count
        self.answer: object = None
        self.error: BaseException | None = None


def interrupt(
    act: Callable[[], object], nth: int, kind: type[BaseException] = Interrupted
) -> Outcome:
    """Run `act` and raise `kind` at its nth place. The exception stays referenced by the
    outcome, with its traceback, as it does while a `with` block is left."""
    interrupter = Interrupter(nth, kind)
    before = sys.gettrace()
    answer, caught = None, None
    sys.settrace(interrupter)
    try:
        answer = act()
    except BaseException as error:  # noqa: BLE001 - the rig judges every kind
        caught = error
    finally:
        sys.settrace(before)
    outcome = Outcome(interrupter)
    outcome.answer, outcome.error = answer, caught
    return outcome
