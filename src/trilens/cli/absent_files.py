"""Files that settings name and that are not on this machine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


class AbsentFiles:
    """Noted where the settings are for another machine, and an error where they are for this one."""

    def __init__(self, *, is_elsewhere: bool) -> None:
        self._is_elsewhere = is_elsewhere
        self.told: dict[str, None] = {}  # each once, in their order

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Around what reads one file, so that the next is looked at as well."""
        try:
            yield
        except ConfigError as e:
            if not (self._is_elsewhere and _is_of_absent(e)):
                raise
            self.told[f"not looked at: {e.message}"] = None


def _is_of_absent(error: ConfigError) -> bool:
    cause = error.__cause__
    while isinstance(cause, ConfigError):
        cause = cause.__cause__
    return isinstance(cause, FileNotFoundError | NotADirectoryError | PermissionError)
