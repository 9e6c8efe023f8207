"""Write the boards where the chart has them, or into the folder that is named."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.dashboards.boards import BOARDS, FOLDER


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (folder / board.file_name).write_text(board.text(), encoding="utf-8")


main()
