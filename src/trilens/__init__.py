"""Workload-aware observability for AI on GPUs.

`import trilens` loads nothing: what a program uses is loaded when it is first named.
"""

__version__ = "0.1.0.dev0"

# Type checkers know the name. The module that has it takes longer to load than all of this one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from trilens.sdk.run import Run
    from trilens.sdk.start import init, latest_run

__all__ = ["Run", "init", "latest_run"]

_WHERE = {"Run": "trilens.sdk.run", "init": "trilens.sdk.start", "latest_run": "trilens.sdk.start"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "serving":
        return import_module("trilens.serving")
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(module), name)
    globals()[name] = found  # asked once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
