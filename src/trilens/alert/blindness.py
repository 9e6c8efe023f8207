"""Alerting rules that cannot find anything, because what they look at is nowhere: blind, which is not quiet.

An expression is read as a formula over metrics: `and` and arithmetic need both sides, `or` needs one,
`unless` only its left one, absent() none. What a recording rule would record is there where its own formula
holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import re2

from trilens.alert.remedies import Remedy, remedy
from trilens.alert.rule import AlertingRule, RecordingRule
from trilens.model.labels import METRIC_NAME
from trilens.model.matcher import Matcher
from trilens.promql import nodes
from trilens.promql.parse import parse
from trilens.promql.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.alert.rule import RuleGroup
    from trilens.promql.nodes import Expr

HasMetric: TypeAlias = "Callable[[str, tuple[Matcher, ...]], bool]"
"""Whether any series of late matches; the name, or the pattern of it, is among the matchers too."""

_Missing: TypeAlias = tuple[tuple[str, ...], ...]
"""All of these are needed; of each, one name is enough. Nothing is missing where it is empty."""

_NOTHING: Final[_Missing] = ()
_ITSELF: Final[_Missing] = ((),)  # what no other name would help
_ABSENCES: Final = frozenset({"absent", "absent_over_time"})

# What is told only while there is something to tell: that it is not there means that all is well.
_TOLD_AT_NEED: Final = re2.compile(
    "trilens_(finding|budget_|cost_|workload_|run_|gpu_lost|gpu_capacity|gpu_reporting|goodput_|team_|rule_blind"
    "|incidents_|tracked_).*|ALERTS|ALERTS_FOR_STATE"
)
# Some come with the first trouble only, from somebody who always tells something else.
_WITNESSES: Final = (
    (re2.compile("kube_.+"), "kube_.+"),
    (re2.compile("trilens_gpu_xid_total"), "trilens_gpu_xid_any_total"),
    (re2.compile("trilens_barrier_rank_missing"), "trilens_barrier_missing_ranks"),
    (re2.compile("trilens_(nvswitch_sxid|node_nvlink_complaints)_total"), "trilens_node_kernel_log_readable"),
    # Of itself a server tells only what it has: clusters, receivers, a certificate, hours that are booked.
    (re2.compile("trilens_(agents|source_up|detection_failures_total)"), "trilens_build_info"),
    (re2.compile("trilens_(backup|cluster|http|ledger|notifications|tls)_.+"), "trilens_build_info"),
)


class BlindRule(NamedTuple):
    group: RuleGroup
    rule: AlertingRule
    missing: tuple[str, ...]  # "A or B" where one of two would do
    remedy: Remedy

    def told(self) -> dict[str, Any]:
        """Beside what /api/v1/rules says of a rule."""
        return {"missing": self.missing, "inputs": self.remedy.inputs, "remedy": self.remedy.text}


def blind_rules(groups: Sequence[RuleGroup], has_metric: HasMetric) -> list[BlindRule]:
    sight = _Sight(groups, has_metric)
    found = []
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, AlertingRule) and (missing := sight.lacks(parse(rule.expr))):
                names = tuple(" or ".join(some) for some in missing if some) or (rule.expr,)
                found.append(BlindRule(group, rule, names, remedy(missing, has_dcgm=sight.has_dcgm())))
    return found


class _Sight:
    def __init__(self, groups: Sequence[RuleGroup], has_metric: HasMetric) -> None:
        self._has_metric = has_metric
        self._known: dict[tuple[Matcher, ...], bool] = {}
        self._recording: dict[str, list[RecordingRule]] = {}
        self._within: set[RecordingRule] = set()  # whose formula is being read: none helps itself
        for group in groups:
            for rule in group.rules:
                if isinstance(rule, RecordingRule):
                    self._recording.setdefault(rule.record, []).append(rule)

    def has_dcgm(self) -> bool:
        return self._has("DCGM_FI_DEV_.+", (Matcher(METRIC_NAME, "=~", "DCGM_FI_DEV_.+"),))

    def lacks(self, expr: Expr) -> _Missing:
        match expr:
            case nodes.Number() | nodes.String():
                return _NOTHING
            case nodes.Paren() | nodes.Negate() | nodes.Subquery():
                return self.lacks(expr.expr)
            case nodes.Selector():
                return self._selector(expr)
            case nodes.RangeSelector():
                return self._selector(expr.selector)
            case nodes.Call():
                return _NOTHING if expr.function in _ABSENCES else self._all(expr.args)
            case nodes.Aggregate():
                return self._all((expr.expr, *((expr.param,) if expr.param is not None else ())))
            case nodes.Binary():
                return self._binary(expr)

    def _binary(self, expr: nodes.Binary) -> _Missing:
        """A long chain leans to the left, and is read from there."""
        first, links = nodes.chain(expr)
        missing = self.lacks(first)
        for link in links:
            fill = link.matching
            if link.op == "or":
                missing = _either(missing, self.lacks(link.rhs))
            elif link.op != "unless":
                left = _NOTHING if fill.fill_left is not None else missing
                right = _NOTHING if fill.fill_right is not None else self.lacks(link.rhs)
                missing = tuple(dict.fromkeys((*left, *right)))
        return missing

    def _all(self, parts: Iterable[Expr]) -> _Missing:
        return tuple(dict.fromkeys(one for part in parts for one in self.lacks(part)))

    def _selector(self, selector: nodes.Selector) -> _Missing:
        names = tuple(m for m in selector.matchers if m.name == METRIC_NAME)
        named = next((m for m in names if m.op in ("=", "=~")), None)
        if named is None:
            return _NOTHING  # it may be anything
        recording = self._recorded_as(named)
        # Of what is scraped a series with these labels may come with the first trouble, as that of a status
        # 500 does; of what rules record it is known who would record it.
        if self._has(named.value, selector.matchers if recording else names):
            return _NOTHING
        missing: _Missing | None = None
        for rule in recording:
            if rule not in self._within and _may_match(rule, selector.matchers):
                self._within.add(rule)
                lacking = self.lacks(parse(rule.expr))
                self._within.discard(rule)
                missing = lacking if missing is None else _either(missing, lacking)
        if missing is None:
            return _ITSELF if not self._within.isdisjoint(recording) else ((named.value,),)
        return missing

    def _recorded_as(self, named: Matcher) -> list[RecordingRule]:
        if named.op == "=":
            return self._recording.get(named.value, [])
        return [rule for name, rules in self._recording.items() if matches(named, name) for rule in rules]

    def _has(self, name: str, matchers: tuple[Matcher, ...]) -> bool:
        if _TOLD_AT_NEED.fullmatch(name):
            return True
        if matchers not in self._known:
            self._known[matchers] = self._has_metric(name, matchers) or any(
                pattern.fullmatch(name) and self._has_metric(witness, (Matcher(METRIC_NAME, "=~", witness),))
                for pattern, witness in _WITNESSES
            )
        return self._known[matchers]


def _either(one: _Missing, other: _Missing) -> _Missing:
    if not one or not other:
        return _NOTHING
    names = (name for alternatives in (*one, *other) for name in alternatives)
    return (tuple(dict.fromkeys(names)),)


def _may_match(rule: RecordingRule, matchers: tuple[Matcher, ...]) -> bool:
    """Whether what it records may match, by the labels that it sets."""
    labels = dict(rule.labels)
    return all(matches(m, labels[m.name]) for m in matchers if m.name in labels)
