"""Relabelling: Prometheus's rewriting of labels, for targets and for scraped series."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import re2
from pydantic import field_validator, model_validator

from trilens.collect.config_section import Section, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Action = Literal[
    "replace", "lowercase", "uppercase", "keep", "drop", "keepequal", "dropequal",
    "hashmod", "labelmap", "labeldrop", "labelkeep",
]  # fmt: skip

_DEFAULTS: Final = {"separator": ";", "regex": "(.*)", "replacement": "$1"}
_NEEDS_TARGET: Final = frozenset({"replace", "hashmod", "lowercase", "uppercase", "keepequal", "dropequal"})
_NEEDS_SOURCE: Final = frozenset({"keepequal", "dropequal"})
_ONLY_REGEX: Final = frozenset({"labeldrop", "labelkeep"})
_NO_REPLACEMENT: Final = frozenset(
    {"lowercase", "uppercase", "keepequal", "dropequal", "labeldrop", "labelkeep"}
)

_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Go takes the longest name after a bare dollar: $1x is the group "1x", not group 1 and an x.
_VARIABLE: Final = re.compile(r"\$(?:(?P<dollar>\$)|(?P<bare>\w+)|\{(?P<braced>\w+)\})")


class RelabelConfig(Section):
    """One step of `relabel_configs` or `metric_relabel_configs`."""

    source_labels: tuple[str, ...] = ()
    separator: Text = _DEFAULTS["separator"]
    regex: Text = _DEFAULTS["regex"]
    modulus: int = 0
    target_label: str = ""
    replacement: Text = _DEFAULTS["replacement"]
    action: Action = "replace"

    @field_validator("action", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("regex")
    @classmethod
    def _is_re2(cls, value: str) -> str:
        try:
            _compile(value)
        except re2.error as e:
            reason = e.args[0].decode() if isinstance(e.args[0], bytes) else e
            raise ValueError(f"not an RE2 regular expression: {reason}") from e
        return value

    @model_validator(mode="after")
    def _fields_fit_action(self) -> RelabelConfig:
        given = {name for name, default in _DEFAULTS.items() if getattr(self, name) != default}
        if self.action in _NEEDS_TARGET and not self.target_label:
            raise ValueError(f"{self.action} needs a target_label")
        if self.action in _NEEDS_SOURCE and not self.source_labels:
            raise ValueError(f"{self.action} needs source_labels")
        if self.action == "hashmod" and self.modulus <= 0:
            raise ValueError("hashmod needs a modulus above 0")
        if self.action in _NO_REPLACEMENT and "replacement" in given:
            raise ValueError(f"{self.action} takes no replacement")
        if self.action in _ONLY_REGEX and (self.source_labels or self.target_label or "separator" in given):
            raise ValueError(f"{self.action} takes a regex and nothing else")
        if self.action in _NEEDS_TARGET - {"replace"} and not _LABEL_NAME.fullmatch(self.target_label):
            raise ValueError(f"{self.target_label!r} is not a label name")
        return self

    @cached_property
    def pattern(self) -> Any:
        return _compile(self.regex)


def _compile(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 would write them to stderr; ours carry the setting's path
    return re2.compile(f"(?s:{regex})", options)


def relabel(labels: dict[str, str], steps: Iterable[RelabelConfig]) -> dict[str, str] | None:
    """The labels after all steps, empty ones removed; None when a step drops them. Returns a new dict."""
    result = dict(labels)
    for step in steps:
        if not _apply(step, result):
            return None
    return {name: value for name, value in result.items() if value}


def _apply(step: RelabelConfig, labels: dict[str, str]) -> bool:
    """Change `labels` in place; False to drop them."""
    value = step.separator.join(labels.get(name, "") for name in step.source_labels)
    match step.action:
        case "replace":
            _replace(step, value, labels)
        case "keep":
            return step.pattern.fullmatch(value) is not None
        case "drop":
            return step.pattern.fullmatch(value) is None
        case "keepequal":
            return labels.get(step.target_label, "") == value
        case "dropequal":
            return labels.get(step.target_label, "") != value
        case "lowercase":
            labels[step.target_label] = value.lower()
        case "uppercase":
            labels[step.target_label] = value.upper()
        case "hashmod":
            labels[step.target_label] = str(_hash(value) % step.modulus)
        case "labelmap":
            _map_names(step, labels)
        case "labeldrop":
            _delete(labels, [name for name in labels if step.pattern.fullmatch(name)])
        case "labelkeep":
            _delete(labels, [name for name in labels if not step.pattern.fullmatch(name)])
    return True


def _replace(step: RelabelConfig, value: str, labels: dict[str, str]) -> None:
    found = step.pattern.fullmatch(value)
    if found is None:
        return
    target = expand(step.target_label, found)
    if target:
        labels[target] = expand(step.replacement, found)


def _map_names(step: RelabelConfig, labels: dict[str, str]) -> None:
    for name, value in list(labels.items()):
        found = step.pattern.fullmatch(name)
        if found is not None and value:
            labels[expand(step.replacement, found)] = value


def _delete(labels: dict[str, str], names: Sequence[str]) -> None:
    for name in names:
        del labels[name]


def _hash(value: str) -> int:
    """The last 8 bytes of the MD5, as Prometheus has always done; nothing here is secret."""
    return int.from_bytes(hashlib.md5(value.encode(), usedforsecurity=False).digest()[8:], "big")


def expand(template: str, found: Any) -> str:
    """Go's regexp.Expand: `$1`, `${1}`, `$name`, `$$`; a group that does not exist or match is empty."""
    if "$" not in template:
        return template

    def group(variable: re.Match[str]) -> str:
        if variable["dollar"]:
            return "$"
        name = variable["bare"] or variable["braced"]
        try:
            text = found.group(int(name) if name.isascii() and name.isdigit() else name)
        except (IndexError, KeyError, re2.error):
            return ""
        return text or ""

    return _VARIABLE.sub(group, template)
