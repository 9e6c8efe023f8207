"""The door: an alert's templates, parsed once and expanded for each of its alerts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trilens.alert.templates.evaluate import execute
from trilens.alert.templates.functions import CHANGING, FUNCTIONS, Surroundings
from trilens.alert.templates.lexer import tokens
from trilens.alert.templates.parser import parse_template
from trilens.alert.templates.values import AlertData, StringMap
from trilens.model.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.alert.templates.functions import Query
    from trilens.alert.templates.tree import Template

log = logging.getLogger(__name__)

_VARIABLES: Final = (
    "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}"
    "{{$externalURL := .ExternalURL}}{{$value := .Value}}"
)


@dataclass(frozen=True, slots=True)
class External:
    """What the server calls itself outside."""

    url: str = ""
    labels: tuple[tuple[str, str], ...] = ()


NO_ADDRESS: Final = External()


@dataclass(frozen=True, slots=True)
class AlertTemplate:
    """A label's or an annotation's text. What it depends on tells when it must be expanded again."""

    text: str
    parsed: Template | None  # None where there is nothing to expand
    of_value: bool  # may differ where only the value does
    of_moment: bool  # may differ at another moment, as it asks a query

    def expand(self, data: AlertData, around: Surroundings) -> str:
        """Raises TemplateError."""
        if self.parsed is None:
            return self.text
        try:
            return execute(self.parsed, data, around)
        except TemplateError as e:
            raise TemplateError(f"error executing template {self.parsed.name}: {e}") from e
        except Exception as e:  # an alert without its text is better than no alert
            log.exception("a template could not be expanded", extra={"template": self.parsed.name})
            raise TemplateError(f"panic expanding template {self.parsed.name}: {type(e).__name__}") from e


@lru_cache(maxsize=4096)
def alert_template(alert: str, text: str) -> AlertTemplate:
    """Raises TemplateError where it cannot be parsed."""
    if "{{" not in text:
        return AlertTemplate(text, None, of_value=False, of_moment=False)
    parsed = parse_template(f"__alert_{alert}", _VARIABLES + text, FUNCTIONS.keys())
    found = {(token.kind, token.text) for token in tokens(text)}
    # A bare dot, or `$`, may hand on everything.
    of_value = not found.isdisjoint(
        {("variable", "$value"), ("field", ".Value"), (".", "."), ("variable", "$")}
    )
    of_moment = any(("identifier", name) in found for name in CHANGING)
    return AlertTemplate(text, parsed, of_value, of_moment)


def alert_data(labels: Mapping[str, str], value: float, external: External) -> AlertData:
    return AlertData(StringMap(labels), StringMap(external.labels), external.url, value)


def expand(
    text: str,
    labels: Mapping[str, str],
    value: float,
    external: External,
    query: Query,
    *,
    alert: str = "",
    at_s: float = 0.0,
) -> str:
    """What an annotation or a label becomes; an error is written into it, in Prometheus's words."""
    around = Surroundings(query, external.url, at_s)
    try:
        return alert_template(alert, text).expand(alert_data(labels, value, external), around)
    except TemplateError as e:
        return told(e)


def told(error: TemplateError) -> str:
    return f"<error expanding template: {error}>"
