"""A wheel has the web app in it, or is not made."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebAppHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        built = Path(self.root, "src", "trilens", "serve", "web", "dist", "index.html")
        if version != "editable" and not built.exists():
            raise RuntimeError("the web app is not built: run `make wheel`, which builds it first")
