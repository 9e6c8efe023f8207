"""The same commands as `kubectl trilens`: kubectl runs `kubectl-trilens` for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_PLUGIN: Final = "kubectl-trilens"


def program_name() -> str:
    """As whoever called it would write it."""
    return "kubectl trilens" if _is_plugin() else "trilens"


def namespace_wanted(given: str | None, everywhere: bool) -> str | None:
    """None for all. Without a word it is all of them, but kubectl's current one where kubectl was called."""
    if everywhere:
        return None
    if given is None and _is_plugin():
        from trilens.settings.kubectl import current_namespace

        return current_namespace()
    return given


def _is_plugin() -> bool:
    return Path(sys.argv[0]).name == _PLUGIN
