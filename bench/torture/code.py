"""Which code a row tries: what came of it holds until that changes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grimp import ImportGraph

    from bench.torture.row import Row

_ROOT: Final = Path(__file__).resolve().parents[2]
_KINDS: Final = (".py", ".yml", ".yaml", ".toml")
# The tests' own parts that rows use besides those of their first folder.
_USED: Final = ("tests/store/http_front.py", "tests/fuzz/test_text_comes_back.py")
_USED_BY_READERS: Final = ("bench/torture/slope.py", "tests/flight_dump.py")
_READERS: Final = "bench.torture.fuzz.targets"  # imports each of them


@cache
def code_version(row: Row) -> str:
    """It changes with every file of Trilens that is Python or a rule, and with whatever tries it; where the
    row tries one reader alone, with what that imports."""
    found = hashlib.sha256()
    for file in sorted(set(tried_by(row))):
        found.update(str(file.relative_to(_ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


def tried_by(row: Row) -> Iterator[Path]:
    if row.reader is not None:
        others = _imports().find_modules_directly_imported_by(_READERS) - {row.reader}
        yield from _read_by(row.reader)
        yield from set(_code_in(_ROOT / "bench/torture/fuzz")) - {_place(one) for one in others}
        yield from (_ROOT / file for file in _USED_BY_READERS)
        return
    for folder in ("src/trilens", "bench/torture"):
        yield from _code_in(_ROOT / folder)
    others = _imports().find_upstream_modules("bench.torture", as_package=True)
    yield from map(_place, (one for one in others if one.startswith("bench.")))
    yield from (_ROOT / "tests").glob("*.py")
    yield from (_ROOT / file for file in _USED)


def _read_by(module: str) -> Iterator[Path]:
    """The files of a module, of all that it imports when it runs, and the rules that lie beside those."""
    graph = _imports()
    for one in _with_packages([module, *graph.find_upstream_modules(module)]):
        file = _place(one)
        yield file
        if file.name == "__init__.py":
            yield from (beside for beside in file.parent.iterdir() if beside.suffix in _KINDS[1:])


def _place(module: str) -> Path:
    parts = module.split(".")
    folder = _ROOT.joinpath(*(["src"] if parts[0] == "trilens" else []), *parts)
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _with_packages(modules: Iterable[str]) -> set[str]:
    found = set()
    for module in modules:
        parts = module.split(".")
        found |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return found


@cache
def _imports() -> ImportGraph:
    return grimp.build_graph("trilens", "bench", exclude_type_checking_imports=True, cache_dir=None)


def _code_in(folder: Path) -> Iterator[Path]:
    yield from (file for file in folder.rglob("*") if file.suffix in _KINDS)
