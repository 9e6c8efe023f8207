"""Regular expressions as selectors and label_replace() understand them."""

from __future__ import annotations

from typing import Any, Final

import re2

WHOLE_VALUE: Final = "^(?s:"


def compile_pattern(pattern: str) -> Any:
    """An RE2 pattern that means whole values, in which a dot is any character. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(f"{WHOLE_VALUE}{pattern})$", options)
