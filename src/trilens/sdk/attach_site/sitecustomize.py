"""What every Python that `trilens run` started does before its program: `trilens.sdk.attach`.

The folder of this file stands first in PYTHONPATH, which Python's `site` searches for a module of this
name. A `sitecustomize` that the machine has of its own is run after it, as if this one were not there.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded for this


def _attach() -> None:
    if importlib.util.find_spec("trilens") is None:  # the program has a Python, or a venv, of its own
        package = os.path.dirname(os.path.dirname(_HERE))  # noqa: PTH120
        init = os.path.join(package, "__init__.py")  # noqa: PTH118
        spec = importlib.util.spec_from_file_location("trilens", init, submodule_search_locations=[package])
        if spec is None or spec.loader is None:
            raise ImportError(f"{init} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules["trilens"] = module
        spec.loader.exec_module(module)

    from trilens.sdk.attach import install

    install(is_main=_is_main())


def _is_main() -> bool:
    """Whether this is the process that `trilens run` became, not one that the program started."""
    return os.environ.get("TRILENS_ATTACH_PID") == str(os.getpid())


def _go_on() -> None:
    """The sitecustomize that this one stands before, under its own name."""
    spec = importlib.machinery.PathFinder.find_spec(__name__, sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]  # noqa: PTH100
try:
    _attach()
except Exception as error:  # noqa: BLE001 - the program must run whatever is wrong with us
    if _is_main():
        sys.stderr.write(f"trilens: cannot watch this program: {type(error).__name__}: {error}\n")
_go_on()
