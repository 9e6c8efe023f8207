"""A crash of native code ends the process at once, with where each thread was on standard error.

The embedded engine takes such signals for itself: the process would stay for five minutes in which all that
it is asked fails, before it ends without a word.
"""

from __future__ import annotations

import faulthandler
import signal
from typing import Final

_CRASHES: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)


def end_at_a_crash() -> None:
    """After the engine is open, in the main thread."""
    faulthandler.disable()  # what was on before would come back to the engine's way
    for number in _CRASHES:
        signal.signal(number, signal.SIG_DFL)
    faulthandler.enable()
