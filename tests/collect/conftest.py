from __future__ import annotations

import sys
from pathlib import Path

# tests/servers.py is shared by all folders.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
