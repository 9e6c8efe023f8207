"""A process to be killed while it makes a backup. Run by the tests, never by hand.

backup_child.py DIR TARGET    says "copied" when the tables are, and then waits for ever
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from trilens.store import backup
from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.migrations import migrate


def wait_for_ever(*_: Any) -> None:
    print("copied", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    directory, target = map(Path, sys.argv[1:])
    backup._copy_files = wait_for_ever
    with Engine.open(directory, EngineOptions(backup_dir=target.parent)) as engine:
        migrate(engine)
        backup.back_up(engine, directory, target)
