"""Which namespace kubectl would look in, for the commands that it runs as its plugin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trilens.settings.yaml_file import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE: Final = "KUBECONFIG"
_DEFAULT: Final = "default"


def current_namespace(environ: Mapping[str, str] | None = None) -> str:
    """Of the current context. Of several files the first that says something is right, as with kubectl."""
    environ = os.environ if environ is None else environ
    files = [Path(name) for name in environ.get(_VARIABLE, "").split(os.pathsep) if name]
    trees = [
        tree
        for file in files or [Path("~/.kube/config").expanduser()]
        if file.is_file() and isinstance(tree := read_yaml(file, "the kubeconfig").tree, dict)
    ]
    current = next((tree["current-context"] for tree in trees if tree.get("current-context")), None)
    for tree in trees:
        for entry in _entries(tree, "contexts"):
            if entry.get("name") == current and isinstance(context := entry.get("context"), dict):
                return str(context.get("namespace") or _DEFAULT)
    return _DEFAULT


def _entries(tree: dict[str, Any], key: str) -> list[dict[str, Any]]:
    written = tree.get(key)
    return [entry for entry in written if isinstance(entry, dict)] if isinstance(written, list) else []
