"""On which engines a test of the store runs: on all in `make test-long`, on fewer in `make test`."""

from __future__ import annotations

from typing import Final

import pytest

from long_form import IS_LONG

EMBEDDED: Final = "embedded"
SIZES: Final = [EMBEDDED, "server"]
CLUSTER: Final = "cluster"  # one that has its tables as a cluster has them
CHOSEN: Final = [*SIZES, CLUSTER] if IS_LONG else SIZES
CHOSEN_FOR_TABLES: Final = [EMBEDDED, CLUSTER] if IS_LONG else [EMBEDDED]

# In `make test`, too, for what is most different there: what lies in shards is written, read and deleted.
on_every_engine = pytest.mark.parametrize("engine", [*SIZES, CLUSTER], indirect=True)
alone_and_on_a_cluster = pytest.mark.parametrize("engine", [EMBEDDED, CLUSTER], indirect=True)
tables_alone_and_on_a_cluster = pytest.mark.parametrize("tables", [EMBEDDED, CLUSTER], indirect=True)
