"""Lines to be typed beside a demo."""

import shutil
import sys
from typing import Final

_USUAL: Final = "http://127.0.0.1:9333"


def to_type(arguments: str, url: str) -> str:
    """As the demo was started, so that it can be pasted where no `trilens` is on the path."""
    command = "trilens" if shutil.which("trilens") else sys.argv[0]
    return f"{command} {arguments}" + ("" if url == _USUAL else f" --server {url}")
