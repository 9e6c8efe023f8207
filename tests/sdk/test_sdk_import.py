"""What a program pays for `import trilens`, counted in modules: times are the benchmark's."""

from __future__ import annotations

import json
import subprocess
import sys

import trilens
from trilens_process import clean_environment

LOADED = """
import json, sys
before = set(sys.modules)
import trilens
imported = set(sys.modules) - before
trilens.init
trilens.Run
print(json.dumps([sorted(imported), sorted(set(sys.modules) - before)]))
"""
# Each costs milliseconds or megabytes that a step recorder has no use for.
HEAVY = {"asyncio", "ssl", "http.server", "email", "dataclasses", "inspect", "torch", "numpy", "pydantic"}


def test_import_loads_nothing_and_init_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, env=clean_environment(), check=True
    )
    imported, with_init = json.loads(done.stdout)
    assert [name for name in imported if name.startswith("trilens.")] == []
    assert HEAVY.isdisjoint(with_init)


def test_the_public_names_are_there() -> None:
    assert set(trilens.__all__) <= set(dir(trilens))
    for name in trilens.__all__:
        assert getattr(trilens, name) is not None
    assert not hasattr(trilens, "nothing_of_ours")
