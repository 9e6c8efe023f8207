"""Values as SQL text. Only names and strings need care: everything else we send is a number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(name: str) -> str:
    """A table, column or database name; ours are plain words, and a configured one must be too."""
    if not _IDENTIFIER.fullmatch(name):
        raise ConfigError(f"not a usable name in the database: {name!r}")
    return f"`{name}`"


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def text_list(values: Iterable[str]) -> str:
    return "(" + ", ".join(text(v) for v in values) + ")"


def id_list(ids: NDArray[np.uint64]) -> str:
    return "(" + ",".join(map(str, ids.tolist())) + ")"
