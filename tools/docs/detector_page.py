"""Every detector, in its own words: the docstring of its module."""

from __future__ import annotations

import inspect
import re
from typing import Final

from tools.docs.text import page
from trilens.detect.detectors import all_detectors

_ABOUT = """\
What each detector finds, why it costs money, an example and what to do, as its module says it. When each
speaks, and what it takes into account, is in [Detectors](../detectors.md)."""
_LEADS: Final = ("What it finds", "Why it costs", "Example", "What to do")


def detectors_page() -> str:
    return page("Detector list", _ABOUT, *(_section(code, text) for code, text in told()))


def told() -> list[tuple[str, str]]:
    """Code and docstring."""
    return [(one.code, inspect.getdoc(inspect.getmodule(type(one))) or "") for one in all_detectors()]


def _section(code: str, text: str) -> str:
    title, _, rest = text.partition("\n")
    name = title.removeprefix(f"{code} ").partition(":")[0]
    lines = rest.strip()
    for lead in _LEADS:
        lines = re.sub(rf"^{lead}:", f"\n**{lead}.**", lines, flags=re.MULTILINE)
    anchor = re.sub(r"[^a-z0-9 -]", "", f"{code} {name}".lower()).replace(" ", "-")
    more = f"[When it speaks](../detectors.md#{anchor})"
    return f"## {code} {name}\n\n{title.partition(': ')[2]}\n\n{lines}\n\n{more}"
