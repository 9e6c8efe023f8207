"""Where this user's programs keep what they can make again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """It need not be there yet."""
    if cache := environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "trilens"
    if home := environ.get("HOME"):
        return Path(home) / ".cache" / "trilens"
    return Path(tempfile.gettempdir()) / f"trilens-cache-{os.getuid()}"
