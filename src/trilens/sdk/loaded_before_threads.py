"""What the SDK's threads need, to be imported by the program's own thread before they begin.

A child that is forked while a thread imports a module waits for that module for ever once it needs it: the
lock is held by a thread that the child does not have. DataLoader workers are such children, and whoever
connects to anything needs `encodings.idna`.
"""

import encodings.idna  # noqa: F401
import http.client  # noqa: F401
import logging  # noqa: F401
