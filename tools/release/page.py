"""docs/dependencies.md: what Trilens stands on, for each extra, with its licence and why it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packaging.utils import canonicalize_name

from tools.docs.text import code, table
from tools.release.dependencies import CORE, ROOT, SHIPPED, in_web_app, installed, named
from tools.release.licences import ALLOWED
from tools.release.reasons import REASONS

if TYPE_CHECKING:
    from packaging.requirements import Requirement

FILE: Final = ROOT / "docs" / "dependencies.md"
_ABOUT: Final = f"""\
# What Trilens depends on

Made by `python -m tools.release page`; a test compares it with `pyproject.toml`. Trilens is Apache-2.0.

What these bring along, with versions, is in the [SBOM](releasing.md#sbom) of a release. `make release-check`
looks at the licence of every package that an install of {", ".join(code(one) for one in SHIPPED)}
gets, and fails for one that is not among these: {", ".join(sorted(ALLOWED))}.
Other extras are for working on Trilens, or hold the frameworks of your own programs, which come with terms
of their own (torch brings NVIDIA's libraries)."""
_TITLES: Final = {CORE: "Always: the client and the command line"}


def page() -> str:
    """Raises LookupError for a dependency that nobody has said why it is there, or that is not installed."""
    parts = [_ABOUT]
    for extra, requirements in named().items():
        if requirements:
            rows = [_row(one) for one in sorted(requirements, key=lambda one: one.name.lower())]
            title = _TITLES.get(extra, code(f"trilens[{extra}]"))
            parts.append(f"## {title}\n\n{table(('package', 'licence', 'why'), rows)}")
    rows = [(code(one.name), one.licence or "not told", _WEB[one.name]) for one in in_web_app()]
    about = "From npm; all else there is only for building it."
    parts.append(f"## In the web app\n\n{about}\n\n{table(('package', 'licence', 'why'), rows)}")
    return "\n\n".join(one.rstrip("\n") for one in parts) + "\n"


_WEB: Final = {"preact": "the pages", "uplot": "the charts"}


def _row(one: Requirement) -> tuple[str, str, str]:
    name = canonicalize_name(one.name)
    if name not in REASONS:
        raise LookupError(f"{name}: say in tools/release/reasons.py why it is there")
    return code(one.name), installed(one.name).licence or "not told", REASONS[name]
