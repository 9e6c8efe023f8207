"""The torture table: long runs that try to break Trilens, each a command that can be resumed."""

import sys
from pathlib import Path

# The servers, programs and writers of the tests are used here, too.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
