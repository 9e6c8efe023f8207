"""A file of rule tests as promtool has it, read and checked with the place of what is wrong."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field

from trilens.alert.rule_part import RulePart, read_part, refuse
from trilens.collect.config_section import Text  # noqa: TC001  # pydantic reads it at run time
from trilens.settings.duration import Duration  # noqa: TC001  # likewise
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from pathlib import Path

_MINUTE: Final = timedelta(minutes=1)
_ZERO: Final = timedelta()


def _moment_ms(value: Any) -> Any:
    """Seconds since the epoch, or a time as RFC 3339 writes it."""
    try:
        return round(float(value) * 1000)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as e:
        raise ValueError(f"{value!r} is not a time; write seconds or 2026-01-01T00:00:00Z") from e
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class InputSeries(RulePart):
    series: Text
    values: Text


class ExpectedAlert(RulePart):
    exp_labels: dict[str, Text] = Field(default_factory=dict)
    exp_annotations: dict[str, Text] = Field(default_factory=dict)


class AlertTest(RulePart):
    eval_time: Duration = _ZERO
    alertname: Text = ""
    exp_alerts: tuple[ExpectedAlert, ...] = ()


class ExpectedSample(RulePart):
    labels: Text = ""
    value: float = 0.0


class ExprTest(RulePart):
    expr: Text
    eval_time: Duration = _ZERO
    exp_samples: tuple[ExpectedSample, ...] = ()


class TestGroup(RulePart):
    __test__ = False  # for pytest: none of its own

    name: Text = ""
    interval: Duration = _ZERO  # that of evaluation where there is none
    start_timestamp: Annotated[int, BeforeValidator(_moment_ms)] = 0  # in ms
    input_series: tuple[InputSeries, ...] = ()
    alert_rule_test: tuple[AlertTest, ...] = ()
    promql_expr_test: tuple[ExprTest, ...] = ()
    external_labels: dict[str, Text] = Field(default_factory=dict)
    external_url: Text = ""

    @property
    def last(self) -> timedelta:
        """The latest moment that is asked for."""
        alerts = (one.eval_time for one in self.alert_rule_test)
        return max((*alerts, *(one.eval_time for one in self.promql_expr_test)), default=_ZERO)


class _File(RulePart):
    rule_files: tuple[Text, ...] = ()
    evaluation_interval: Duration = _MINUTE
    group_eval_order: tuple[Text, ...] = ()
    fuzzy_compare: bool = False
    tests: tuple[TestGroup, ...] = ()


_PARTS: Final = (_File, TestGroup, InputSeries, AlertTest, ExpectedAlert, ExprTest, ExpectedSample)


@dataclass(frozen=True, slots=True)
class RuleTestFile:
    rule_files: tuple[Path, ...]
    unmatched: tuple[str, ...]  # patterns that no file matches
    interval: timedelta
    order: tuple[str, ...]
    fuzzy: bool
    tests: tuple[TestGroup, ...]


def read_test_file(file: Path) -> RuleTestFile:
    """Raises ConfigError with file, line and column."""
    document = read_yaml(file, "the file of rule tests", as_written=True)
    place = Place(document)
    read = read_part(_File, document.tree if document.tree is not None else {}, place, _PARTS)
    for i, name in enumerate(read.group_eval_order):
        if name in read.group_eval_order[:i]:
            refuse(place / "group_eval_order" / i, f"group name repeated in evaluation order: {name}")
    matched = {pattern: _matching(file.parent, pattern) for pattern in read.rule_files}
    return RuleTestFile(
        tuple(found for some in matched.values() for found in some),
        tuple(pattern for pattern, some in matched.items() if not some),
        read.evaluation_interval or _MINUTE,
        read.group_eval_order,
        read.fuzzy_compare,
        read.tests,
    )


def _matching(folder: Path, pattern: str) -> list[Path]:
    found = glob.glob(pattern, root_dir=folder)  # noqa: PTH207  # Path.glob takes no absolute pattern
    return sorted(folder / name for name in found)
