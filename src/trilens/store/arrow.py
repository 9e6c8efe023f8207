"""pyarrow without pandas.

chdb brings pandas along, and pyarrow loads it, where there is one, with the first list it is given: half a
second of start and 50 MB for something that nothing here uses. pyarrow looks once and remembers, so it is
made to look while pandas cannot be found.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ImportError("pandas is not wanted here")
        return None


def keep_pandas_out() -> None:
    if "pandas" in sys.modules:
        return  # whoever loaded it may need it
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
