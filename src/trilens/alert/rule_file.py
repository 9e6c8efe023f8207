"""Prometheus rule files, read and checked as Prometheus does, with the place of what is wrong."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import Field

from trilens.alert.rule import AlertingRule, RecordingRule, Rule, RuleGroup
from trilens.alert.rule_part import RulePart, read_part, refuse
from trilens.alert.templates.expand import alert_template
from trilens.collect.config_section import Text  # noqa: TC001  # pydantic reads it at run time
from trilens.model.errors import ConfigError, PromQLSyntaxError, QueryError, TemplateError, line_and_column
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.promql.parse import parse
from trilens.settings.duration import Duration, in_ms
from trilens.settings.yaml_file import Place, YamlFile, parse_yaml, read_yaml

if TYPE_CHECKING:
    from pathlib import Path

_METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ZERO: Final = timedelta()


class RuleSection(RulePart):
    record: Text = ""
    alert: Text = ""
    expr: Text = ""
    for_: Annotated[Duration, Field(alias="for")] = _ZERO
    keep_firing_for: Duration = _ZERO
    labels: dict[str, Text] = Field(default_factory=dict)
    annotations: dict[str, Text] = Field(default_factory=dict)


class GroupSection(RulePart):
    name: Text = ""
    interval: Duration = _ZERO  # the same as none, as in Prometheus
    query_offset: Duration = _ZERO
    limit: int = Field(default=0, ge=0)
    labels: dict[str, Text] = Field(default_factory=dict)
    rules: tuple[RuleSection, ...] = ()


class FileSection(RulePart):
    groups: tuple[Any, ...] = ()  # each is read by itself, so that one with an error leaves the others


_PARTS: Final = (RuleSection, GroupSection, FileSection)


class RuleFile(NamedTuple):
    """`troubles` are groups that could not be read, or the whole file."""

    groups: tuple[RuleGroup, ...]
    troubles: tuple[ConfigError, ...] = ()

    def checked(self) -> tuple[RuleGroup, ...]:
        """Raises ConfigError where not all could be read."""
        if self.troubles:
            raise self.troubles[0]
        return self.groups


def read_rules(file: Path, interval: timedelta) -> RuleFile:
    """`interval` is that of groups that name none."""
    try:
        return _groups(read_yaml(file, "the rule file"), interval)
    except ConfigError as e:
        return RuleFile((), (e,))


def read_rule_file(file: Path, interval: timedelta) -> tuple[RuleGroup, ...]:
    """Raises ConfigError with file, line and column."""
    return read_rules(file, interval).checked()


def parse_rules(text: str, file: Path, interval: timedelta) -> tuple[RuleGroup, ...]:
    """The same for a text that was read already."""
    return _groups(parse_yaml(text, file), interval).checked()


def _groups(document: YamlFile, interval: timedelta) -> RuleFile:
    """Raises ConfigError where there are no groups to be seen."""
    place = Place(document)
    section = read_part(FileSection, document.tree if document.tree is not None else {}, place, _PARTS)
    seen: set[str] = set()
    groups, troubles = [], []
    for i, tree in enumerate(section.groups):
        try:
            groups.append(_group(document, tree, place / "groups" / i, seen, interval))
        except ConfigError as e:
            troubles.append(e)
    return RuleFile(tuple(groups), tuple(troubles))


def _group(document: YamlFile, tree: Any, at: Place, seen: set[str], interval: timedelta) -> RuleGroup:
    group = read_part(GroupSection, tree, at, _PARTS)
    if not group.name:
        refuse(at, "a group needs a name")
    if group.name in seen:
        refuse(at / "name", f"the group {group.name!r} is in this file a second time")
    seen.add(group.name)
    every = in_ms(group.interval or interval)
    _check_label_names(group.labels, at / "labels")
    rules = tuple(_rule(rule, group, at / "rules" / k) for k, rule in enumerate(group.rules))
    return RuleGroup(str(document.file), group.name, every, in_ms(group.query_offset), group.limit, rules)


def _rule(rule: RuleSection, group: GroupSection, at: Place) -> Rule:
    if bool(rule.record) == bool(rule.alert):
        refuse(at, "a rule has either `record` or `alert`")
    if not rule.expr.strip():
        refuse(at, "a rule needs an `expr`")
    _check_expr(rule.expr, at / "expr")
    _check_label_names(rule.labels, at / "labels")
    labels = tuple(sorted({**group.labels, **rule.labels}.items()))
    if rule.alert:
        _check_label_names(rule.annotations, at / "annotations")
        for key, texts in (("labels", dict(labels)), ("annotations", rule.annotations)):
            _check_templates(rule.alert, texts, at / key)
        return AlertingRule(
            rule.alert,
            rule.expr,
            in_ms(rule.for_),
            in_ms(rule.keep_firing_for),
            labels,
            make_labels(rule.annotations),
        )
    if not _METRIC_NAME.fullmatch(rule.record):
        refuse(at / "record", f"{rule.record!r} is not a metric name")
    for key, given in (("for", rule.for_), ("keep_firing_for", rule.keep_firing_for)):
        if given:
            refuse(at / key, f"`{key}` is for alerts; a recording rule has none")
    if rule.annotations:
        refuse(at / "annotations", "annotations are for alerts; a recording rule has none")
    return RecordingRule(rule.record, rule.expr, labels)


def _check_expr(expr: str, at: Place) -> None:
    try:
        parse(expr)
    except PromQLSyntaxError as e:
        assert at.file is not None
        line, column = line_and_column(expr, e.position or 0)
        where = at.file.locate_in_text(at.path, line, column)
        raise ConfigError(f"{at}: {e.reason}", where=where) from e
    except QueryError as e:
        raise ConfigError(f"{at}: {e}", where=at.where) from e


def _check_label_names(labels: dict[str, str], at: Place) -> None:
    for name in labels:
        if not _LABEL_NAME.fullmatch(name) or name == METRIC_NAME:
            refuse(at / name, f"{name!r} is not a label name that a rule may set")


def _check_templates(alert: str, texts: dict[str, str], at: Place) -> None:
    for name, text in texts.items():
        try:
            alert_template(alert, text)
        except TemplateError as e:
            refuse(at / name, str(e))
