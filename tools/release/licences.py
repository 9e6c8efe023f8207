"""Which licence a package has, as SPDX writes it, and which of them Trilens may come with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from license_expression import ExpressionError, get_spdx_licensing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.release.dependencies import Part

# Free to use, change and pass on beside Apache-2.0. MPL-2.0 asks for changed files of the package itself, and
# none is changed here.
ALLOWED: Final = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
# What older packages say in a classifier, or in words.
_SAID: Final = {
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache Software License 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Where the metadata do not say: as the licence file in the package has it.
_LOOKED_UP: Final = {"promql-parser": "MIT"}
_CLASSIFIER: Final = "License :: OSI Approved :: "
_SPDX: Final = get_spdx_licensing()


def licence_of(metadata: Mapping[str, str | list[str]]) -> str | None:
    """As the JSON form of a package's metadata has it; None where that says nothing that can be read."""
    if (expression := metadata.get("license_expression")) is not None:
        return str(expression)
    classifiers = [one.removeprefix(_CLASSIFIER) for one in metadata.get("classifier", ())]
    known = [_SAID[one] for one in classifiers if one in _SAID]
    if known:
        return " AND ".join(known)  # "either" or "both" is not told: both must do
    said = str(metadata.get("license", "")).strip()
    return _SAID.get(said) or (said if said in ALLOWED else _LOOKED_UP.get(str(metadata["name"]).lower()))


def is_allowed(licence: str | None) -> bool:
    """Of `A OR B` one is enough, of `A AND B` both are needed."""
    if licence is None:
        return False
    try:
        expression = _SPDX.parse(licence, validate=True)
    except ExpressionError:
        return False
    allowed = {symbol: _SPDX.TRUE if symbol.key in ALLOWED else _SPDX.FALSE for symbol in expression.symbols}
    return bool(expression.subs(allowed, simplify=True) == _SPDX.TRUE)


def not_allowed(parts: Iterable[Part]) -> list[str]:
    """A line each."""
    return [
        f"{part.name} {part.version}: {part.licence or 'no licence is told'}"
        for part in parts
        if not is_allowed(part.licence)
    ]
