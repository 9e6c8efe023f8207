"""pyarrow without pandas.

chdb brings pandas along, and pyarrow loads it, where there is one, with the first list it is given: half a
second and 50 MB for something that nothing here uses.
"""

from __future__ import annotations

import sys

import pyarrow as pa


def keep_pandas_out() -> None:
    """pyarrow looks for pandas once and remembers. Let it look while pandas cannot be found."""
    if "pandas" in sys.modules:
        return  # whoever loaded it may need it
    sys.modules["pandas"] = None  # type: ignore[assignment]  # Python's own way to say: not importable
    try:
        pa.array([])
    finally:
        del sys.modules["pandas"]
