"""How parts of a file are read: of rules, of tests of rules, of objectives."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import ValidationError, model_validator

from trilens.collect.config_section import Section
from trilens.model.errors import ConfigError
from trilens.settings.explain import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.settings.yaml_file import Place


class RulePart(Section):
    @model_validator(mode="before")
    @classmethod
    def _empty_is_left_out(cls, value: Any) -> Any:
        """A key with nothing behind it is as good as none."""
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


_P = TypeVar("_P", bound=RulePart)


def read_part(part: type[_P], tree: Any, at: Place, kinds: Sequence[type[RulePart]]) -> _P:
    """`kinds` are all parts of such a file: an unknown key may be one of theirs. Raises ConfigError."""

    def nearest(unknown: Place) -> str | None:
        known = {field.alias or name for kind in kinds for name, field in kind.model_fields.items()}
        found = difflib.get_close_matches(str(unknown.path[-1]), sorted(known), n=1)
        return found[0] if found else None

    try:
        return part.model_validate(tree)
    except ValidationError as e:
        raise explain(e, at, nearest) from e


def refuse(at: Place, message: str) -> NoReturn:
    raise ConfigError(f"{at}: {message}" if at.path else message, where=at.where)
