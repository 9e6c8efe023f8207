"""Regular expressions as selectors and label_replace() understand them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import re2

if TYPE_CHECKING:
    from trilens.model.matcher import Matcher

WHOLE_VALUE: Final = "^(?s:"


def compile_pattern(pattern: str) -> Any:
    """An RE2 pattern that means whole values, in which a dot is any character. Raises re2.error."""
    try:
        pattern.encode()
    except UnicodeEncodeError as e:  # "\xff" in a query: a byte that is no text
        raise re2.error("invalid UTF-8") from e
    options = re2.Options()
    options.log_errors = False
    return re2.compile(f"{WHOLE_VALUE}{pattern})$", options)


def matches(matcher: Matcher, value: str) -> bool:
    """Whether a label with this value, empty where there is none, is one that the matcher takes."""
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    return (_compiled(matcher.value).search(value) is not None) == (matcher.op == "=~")


_compiled = lru_cache(maxsize=256)(compile_pattern)
