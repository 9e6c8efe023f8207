"""Rule files read as the server would read them, and what there is to say about each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trilens.alert.rule_file import read_rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.alert.rule import RuleGroup

_ANY_INTERVAL = timedelta(minutes=1)  # that of groups that name none is not the file's to say


@dataclass(frozen=True, slots=True)
class RuleFileReport:
    """`where` is the file, line and column that `error` is about; `more` are those of other groups."""

    file: str
    ok: bool
    rules: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None
    where: str | None = None
    more: tuple[str, ...] = ()


def check_rule_file(file: Path) -> RuleFileReport:
    groups, troubles = read_rules(file, _ANY_INTERVAL)
    if troubles:
        first, *others = troubles
        where = first.where or str(file)
        return RuleFileReport(str(file), False, error=str(first), where=where, more=tuple(map(str, others)))
    count = sum(len(group.rules) for group in groups)
    return RuleFileReport(str(file), ok=True, rules=count, warnings=tuple(_warnings(groups)))


def _warnings(groups: tuple[RuleGroup, ...]) -> Iterator[str]:
    named = Counter((rule.name, rule.labels) for group in groups for rule in group.rules)
    for (name, _), count in named.items():
        if count > 1:
            yield f"{count} rules are named {name!r} with the same labels: they may write the same series"
