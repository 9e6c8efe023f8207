"""A server starts without what it does not need."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import sys, time
from pathlib import Path
import numpy as np
from trilens.serve.compose import System
from trilens.settings.load import load_settings

settings = load_settings(overrides={"storage.data_dir": Path(sys.argv[1])}, environ={})
system = System(settings, None, lambda: settings)
store = system.store
series = np.array([store.series((("__name__", "a"),))], dtype=np.int32)
store.append(series, np.array([int(time.time() * 1000)]), np.array([1.0]))
store.durable().result(20)
print(store.size().samples)
store.close()
print([name for name in ("pandas", "aiohttp", "clickhouse_connect") if name in sys.modules])
"""


def test_a_start_and_a_write_load_no_pandas_and_no_http_client(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.splitlines() == ["1", "[]"]
