"""A wheel has the web app and the night of the demo in it, or is not made."""

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MADE: Final = {
    "the web app is not built": "web/dist/index.html",
    "the night of the demo is not made": "rehearsal/night/night.json",
}


class MadeBeforeHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, "src", "trilens", "serve")
        missing = [what for what, file in _MADE.items() if not (folder / file).exists()]
        if version != "editable" and missing:
            raise RuntimeError(f"{' and '.join(missing)}: run `make wheel`, which does that first")
