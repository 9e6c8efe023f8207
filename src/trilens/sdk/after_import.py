"""Being told when the program has imported a module, without importing it first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    AfterImport: TypeAlias = Callable[[ModuleType], None]


def after_import(calls: Mapping[str, AfterImport]) -> None:
    """Calls each once its module is whole: now, where it is already, else right after its import.

    They must not raise: that would look as if the module had failed.
    """
    later: dict[str, AfterImport] = {}
    for name, call in calls.items():
        module = sys.modules.get(name)
        if module is None:
            later[name] = call
        else:
            call(module)
    if later:
        sys.meta_path.insert(0, _Watcher(later))


class _Watcher:
    """Finds nothing itself: it asks the finders after it, and stands behind the loader that they name."""

    def __init__(self, calls: dict[str, AfterImport]) -> None:
        self._calls = calls

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._calls:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or spec.loader is None:
            return None
        call = self._calls.pop(name)
        if not self._calls:
            sys.meta_path.remove(self)
        execute = spec.loader.exec_module

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            call(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec
