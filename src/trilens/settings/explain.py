"""What is wrong with settings, as one clear line out of pydantic's list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.errors import ConfigError, UnknownSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import ValidationError

    from trilens.settings.yaml_file import Place


# Of what pydantic tells in words of Python.
_IN_WORDS: Final = {
    "missing": "is missing",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a group of `name: value`",
    "model_type": "must be a group of `name: value`",
}


def explain(
    error: ValidationError,
    place: Place,
    nearest: Callable[[Place], str | None],
    origins: Mapping[str, str] | None = None,
) -> ConfigError:
    """`place` is where the validated thing stands; `nearest` finds a known name like the unknown one.

    `origins` names, by setting, the option or variable that a value came from where that was not the file.
    """
    problems = []
    for problem in error.errors(include_url=False):
        at = place
        for step in problem["loc"]:
            at = at / step
        if problem["type"] == "extra_forbidden":  # told alone, for it often causes the others
            return UnknownSetting(str(at), nearest(at), where=at.where)
        message = _IN_WORDS.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
        problems.append((at, message))
    first, message = problems[0]
    origin = (origins or {}).get(".".join(map(str, first.path[:2])))
    texts = [message if origin or not first.path else f"{first}: {message}"]
    texts += [f"{at}: {message}" for at, message in problems[1:]]
    return ConfigError("; ".join(texts), where=origin or first.where)
