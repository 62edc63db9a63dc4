"""A child that is forked off a test, and what it found."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable

CHILD_S = 120  # it hangs, and is ended


def in_child(act: Callable[[], object]) -> str:
    """Run `act` in a forked child; what went wrong there, or nothing."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks beside threads. That is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_S)
            act()
            code = 0
        except BaseException:  # noqa: BLE001 - a child must not go on with the tests
            os.write(writing, traceback.format_exc()[-4000:].encode())
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return said or (f"the child ended with {code}" if code else "")
