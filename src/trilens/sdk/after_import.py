"""Being told when the program has imported a module, without importing it first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

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
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _TellingLoader(spec.loader, self._executed)  # type: ignore[assignment]
        return spec

    def _executed(self, module: ModuleType) -> None:
        """Not when it is found: the program may only ask whether it is there."""
        call = self._calls.pop(module.__name__, None)
        if not self._calls and self in sys.meta_path:
            sys.meta_path.remove(self)
        if call is not None:
            call(module)


class _TellingLoader:
    """The loader that was found, but for one method. Until the module is there, which then has its own."""

    def __init__(self, loader: Any, executed: AfterImport) -> None:
        self._loader = loader
        self._executed = executed

    def exec_module(self, module: ModuleType) -> None:
        loader = module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = loader
        loader.exec_module(module)
        self._executed(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
