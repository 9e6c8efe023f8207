"""Label matchers as people write them: `team="vision"`, `severity=~"critical|warning"`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator

from trilens.model.matcher import Matcher

_MATCHER: Final = re.compile(
    r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"
    r'(?:"((?:[^"\\]|\\.)*)"|([^"\s{}=~!][^"{}]*?)?)\s*',
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def read_matcher(text: str) -> Matcher:
    """Raises ValueError. A regular expression is not looked into: see alert/delivery/matching.py."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(
            f'{text!r} is not a matcher: write team="vision", severity=~"critical|warning" or node!="gpu-1"'
        )
    name, op, quoted, bare = found.groups()
    value = (bare or "") if quoted is None else _ESCAPED.sub(_meant, quoted)
    return Matcher(name, cast('Literal["=", "!=", "=~", "!~"]', op), value)


def _meant(escape: re.Match[str]) -> str:
    """In a regular expression a backslash means something of its own: only quotes and itself need one."""
    char = escape[1]
    return "\n" if char == "n" else char if char in '"\\' else escape[0]


def _as_list(value: Any) -> Any:
    """One may stand alone; a comma is a character like others."""
    return [value] if isinstance(value, str) else value


def _are_readable(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        read_matcher(text)
    return texts


MatcherTexts = Annotated[tuple[str, ...], BeforeValidator(_as_list), AfterValidator(_are_readable)]
