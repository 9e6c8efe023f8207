"""What is wrong with settings, as one clear line out of pydantic's list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.errors import ConfigError, UnknownSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import ValidationError

    from trilens.settings.yaml_file import Place


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
        problems.append((at, problem["msg"].removeprefix("Value error, ")))
    first, message = problems[0]
    origin = (origins or {}).get(".".join(map(str, first.path[:2])))
    texts = [message if origin or not first.path else f"{first}: {message}"]
    texts += [f"{at}: {message}" for at, message in problems[1:]]
    return ConfigError("; ".join(texts), where=origin or first.where)
