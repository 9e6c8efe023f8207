"""The rules of another server, where it has the samples: as it tells them, and which of them are blind."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.alert.blindness import blind_rules
from trilens.alert.rule import AlertingRule, RecordingRule, RuleGroup
from trilens.model.errors import PromQLSyntaxError, PromQLUnsupported, SourceError
from trilens.model.labels import METRIC_NAME
from trilens.promql.annotations import quote
from trilens.promql.parse import parse
from trilens.promql.patterns import matches
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.looking_often import LookingOften
from trilens.serve.rule_sight import LATE_MS, blind_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.alert.blindness import BlindRule, HasMetric
    from trilens.alert.rule import Rule
    from trilens.model.matcher import Matcher

_LOOK_S: Final = 120.0  # each look asks for names some dozen times, of a server that others need
_WITHIN_S: Final = 60.0
_TOLD_ALWAYS: Final = ("name", "query", "type", "health", "evaluationTime")

Told = dict[str, Any]


class RuleSource(Protocol):
    """Raises SourceError where there is no answer."""

    async def rules(self) -> list[Told]:
        """The groups, as /api/v1/rules has them."""

    async def metric_names(self, selector: str | None, from_ms: int, to_ms: int) -> list[str]: ...


class RulesElsewhere:
    """Asks for as long as it runs."""

    def __init__(
        self, source: RuleSource, *, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._source = source
        self._clock_ms = clock_ms
        self._groups: list[Told] = []
        self._blind: Sequence[BlindRule] = ()
        self._looking = LookingOften(self.look, _LOOK_S, "rules of the metric source are not seen")

    async def start(self) -> None:
        await self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    def groups(self) -> list[Told]:
        """As that server told them last, with `blind` where a rule is."""
        return self._groups

    def metrics(self) -> Iterator[Metric]:
        yield blind_family(self._blind)

    async def look(self) -> None:
        """Raises SourceError when there is no answer: what was seen last then stays."""
        told = await self._source.rules()
        try:
            read = [[(one, _rule(one)) for one in group["rules"]] for group in told]
            groups = [
                RuleGroup(group["file"], group["name"], round(group["interval"] * 1000), 0, 0, _known(rules))
                for group, rules in zip(told, read, strict=True)
            ]
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise SourceError("the metric source tells its rules in a way that is not Prometheus's") from e
        loop = AskedLoop(asyncio.get_running_loop())
        try:
            blind = await asyncio.to_thread(blind_rules, groups, await self._sight(loop))
        finally:
            await loop.close()  # where nobody waits any more, that thread ends soon
        lacking: dict[tuple[RuleGroup, Rule | None], BlindRule] = {
            (one.group, one.rule): one for one in blind
        }
        self._blind = blind
        self._groups = [
            {**group, "rules": [_shown(one, lacking.get((of, rule))) for one, rule in rules]}
            for group, of, rules in zip(told, groups, read, strict=True)
        ]

    async def _sight(self, loop: AskedLoop) -> HasMetric:
        """For a thread. What a name tells is known at once; what labels tell is asked for."""
        to_ms = self._clock_ms()
        from_ms = to_ms - LATE_MS
        names = await self._source.metric_names(None, from_ms, to_ms)

        def has_metric(_name: str, matchers: tuple[Matcher, ...]) -> bool:
            of_name = [one for one in matchers if one.name == METRIC_NAME]
            if not any(all(matches(one, name) for one in of_name) for name in names):
                return False
            if len(of_name) == len(matchers):
                return True
            selector = ",".join(f"{one.name}{one.op}{quote(one.value)}" for one in matchers)
            asked = self._source.metric_names(f"{{{selector}}}", from_ms, to_ms)
            return bool(loop.answer(asked, _WITHIN_S))

        return has_metric


def _rule(told: Told) -> Rule | None:
    """None where we cannot read its expression, which may be in a dialect of that server."""
    missing = [name for name in _TOLD_ALWAYS if name not in told]
    if missing:
        raise LookupError(missing)
    labels = tuple((told.get("labels") or {}).items())
    try:
        parse(told["query"])
    except (PromQLSyntaxError, PromQLUnsupported):
        return None
    kind = AlertingRule if told["type"] == "alerting" else RecordingRule
    return kind(told["name"], told["query"], labels=labels)


def _known(rules: list[tuple[Told, Rule | None]]) -> tuple[Rule, ...]:
    return tuple(rule for _, rule in rules if rule is not None)


def _shown(told: Told, blind: BlindRule | None) -> Told:
    """vmalert leaves out labels where there are none."""
    shown = {**told, "labels": told.get("labels") or {}}
    if blind is not None:
        shown["blind"] = blind.told()
    return shown
