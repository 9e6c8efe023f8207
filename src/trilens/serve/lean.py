"""Keeps out of the process what its libraries would load for nothing.

chdb depends on pandas. chdb and pyarrow both load it, where it is installed, when they are handed the first
table or list, to see whether that is a pandas object: half a second of every start and 40 MB. Both do without
where there is no pandas, and nothing here uses it.
"""

from __future__ import annotations

import sys


class _NoPandas:
    """Stands before Python's own finders and says that there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("trilens.serve.lean keeps pandas out", name=name)


def keep_pandas_out() -> None:
    """For a process that is ours alone. A library must not do this, so the store does not."""
    if "pandas" not in sys.modules and _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)
