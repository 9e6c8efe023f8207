"""The alerts of one alerting rule over time: pending, firing, resolved, as Prometheus has it."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote_plus

import numpy as np

from trilens.alert.rule_texts import Labelled, RuleTexts
from trilens.model.alert import Alert, AlertState
from trilens.model.errors import PromQLEvalError
from trilens.model.labels import METRIC_NAME, LabelFrame, Symbols

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.alert.rule import AlertingRule, RuleGroup
    from trilens.alert.templates.expand import External
    from trilens.alert.templates.functions import Query
    from trilens.model.labels import Labels
    from trilens.model.series import Floats

ALERTS: Final = "ALERTS"
ALERTS_FOR_STATE: Final = "ALERTS_FOR_STATE"
SAME_LABELS: Final = "vector contains metrics with the same labelset after applying alert labels"

RESOLVED_FOR_MS: Final = 15 * 60_000  # how long a resolved alert is told again: receivers restart too
RESEND_MS: Final = 60_000
OUTAGE_TOLERANCE_MS: Final = 3_600_000  # state that is older is not restored
GRACE_MS: Final = 10 * 60_000  # what one with a longer `for` waits at least, after a restart, before it fires
_NOT_AWAITED: Final = 0
_SETTLING_MS: Final = 120_000  # after a restart samples come in, and rules record, within about this time


class Before(NamedTuple):
    """What is known of an alert from before a restart."""

    labels: Labels
    active_ms: int
    last_ms: int  # when it was last seen


@dataclass(slots=True)
class _Active:
    labels: Labels
    annotations: Labels
    value: float
    active_ms: int
    state: AlertState = AlertState.PENDING
    fired_ms: int | None = None
    resolved_ms: int | None = None
    keep_firing_since_ms: int | None = None
    told_as: AlertState | None = None
    told_ms: int = 0
    # Set where it was there before a restart, and has not been seen since.
    awaited_until_ms: int | None = None


class ActiveAlerts:
    """`step` is for one thread at a time; the rest may be called from any."""

    def __init__(self, rule: AlertingRule, group: RuleGroup, external: External) -> None:
        self._rule = rule
        self._group = group
        self._texts = RuleTexts(rule, external)
        self._alerts: dict[Labels, _Active] = {}
        self._lock = threading.Lock()
        self._series: LabelFrame | None = None  # of the alerts as they are; None where they changed
        self._evaluated_ms = 0
        expr = quote_plus(rule.expr.strip(), safe="~")
        self._generator_url = f"{external.url}/graph?g0.expr={expr}&g0.tab=1" if external.url else ""

    def __len__(self) -> int:
        return len(self._alerts)

    def step(self, labels: LabelFrame, values: Floats, at_ms: int, query: Query | None = None) -> list[Alert]:
        """What the expression gives at this moment; returns what is pending or fires.

        Raises PromQLEvalError, with nothing changed where two have the same labels, and with nothing active
        any more where there are more than the group's `limit`.
        """
        self._evaluated_ms = at_ms
        if not len(labels) and not self._alerts:
            return []
        found: dict[Labels, Labelled] = {}
        for element in self._texts.expand(labels, values, at_ms, query):
            if element.labels in found:
                raise PromQLEvalError(SAME_LABELS)
            found[element.labels] = element
        with self._lock:
            before = [(one.labels, one.state) for one in self._alerts.values()]
            self._take(found.values(), at_ms)
            active = [
                one for one in list(self._alerts.values()) if self._goes_on(one, one.labels in found, at_ms)
            ]
            for one in active:
                due = one.state is AlertState.PENDING and at_ms - one.active_ms >= self._rule.for_ms
                if due and one.labels in found:
                    one.state, one.fired_ms = AlertState.FIRING, at_ms
            limit = self._group.limit
            if limit and len(active) > limit:
                self._alerts, self._series = {}, None
                raise PromQLEvalError(f"exceeded limit of {limit} with {len(active)} alerts")
            if before != [(one.labels, one.state) for one in self._alerts.values()]:
                self._series = None
            return [self._alert(one) for one in active]

    def _take(self, found: Iterable[Labelled], at_ms: int) -> None:
        for one in found:
            known = self._alerts.get(one.labels)
            if known is not None and known.state is not AlertState.RESOLVED:
                known.value, known.annotations = one.value, one.annotations
                known.awaited_until_ms = known.keep_firing_since_ms = None
            else:
                self._alerts.pop(one.labels, None)
                self._alerts[one.labels] = _Active(one.labels, one.annotations, one.value, at_ms)

    def _goes_on(self, one: _Active, is_found: bool, at_ms: int) -> bool:
        """Whether it is active; one that is not is resolved, or forgotten."""
        if is_found:
            return True
        if one.awaited_until_ms is not None:
            if at_ms < one.awaited_until_ms:
                return True
            if one.awaited_until_ms == _NOT_AWAITED:
                del self._alerts[one.labels]
                return False
        if one.state is AlertState.FIRING and self._rule.keep_firing_for_ms:
            if one.keep_firing_since_ms is None:
                one.keep_firing_since_ms = at_ms
            if at_ms - one.keep_firing_since_ms < self._rule.keep_firing_for_ms:
                return True
        forgotten = one.resolved_ms is not None and at_ms - one.resolved_ms > RESOLVED_FOR_MS
        if one.state is AlertState.PENDING or forgotten:
            del self._alerts[one.labels]
        elif one.state is AlertState.FIRING:
            one.state, one.resolved_ms, one.awaited_until_ms = AlertState.RESOLVED, at_ms, None
        return False

    def restore(self, before: Iterable[Before], at_ms: int, *, awaited: bool) -> None:
        """What was active before a restart goes on where it was.

        `awaited` ones stay for a while though nothing is found: after a start not all samples are there yet.
        Others may be those of another rule, and are forgotten unless they are found.
        """
        settling = max(_SETTLING_MS, 2 * self._group.interval_ms)
        with self._lock:
            for labels, active_ms, last_ms in before:
                fired = last_ms - active_ms >= self._rule.for_ms
                self._alerts[labels] = _Active(
                    labels,
                    (),
                    math.nan,
                    active_ms if fired else self._moved(active_ms, last_ms, at_ms),
                    AlertState.FIRING if fired else AlertState.PENDING,
                    fired_ms=active_ms + self._rule.for_ms if fired else None,
                    awaited_until_ms=at_ms + settling if awaited else _NOT_AWAITED,
                )
            self._series = None

    def _moved(self, active_ms: int, last_ms: int, at_ms: int) -> int:
        """Time that nobody has seen does not count as time in which the expression was true."""
        hold = self._rule.for_ms
        remaining = hold - (last_ms - active_ms)
        if hold >= GRACE_MS and remaining < GRACE_MS:
            return at_ms + GRACE_MS - hold
        return active_ms + at_ms - last_ms

    def adopt(self, other: ActiveAlerts) -> None:
        """The rule was written anew; its alerts go on."""
        with other._lock, self._lock:
            self._alerts, self._series = dict(other._alerts), None

    def alerts(self) -> list[Alert]:
        """What is pending or fires now."""
        with self._lock:
            return [self._alert(one) for one in self._alerts.values() if one.state is not AlertState.RESOLVED]

    def series(self) -> tuple[LabelFrame, Floats]:
        """ALERTS and ALERTS_FOR_STATE, as they are recorded."""
        with self._lock:
            active = [one for one in self._alerts.values() if one.state is not AlertState.RESOLVED]
            if self._series is None:
                rows = [
                    {**dict(one.labels), METRIC_NAME: ALERTS, "alertstate": str(one.state)} for one in active
                ]
                rows += [{**dict(one.labels), METRIC_NAME: ALERTS_FOR_STATE} for one in active]
                self._series = LabelFrame.of(Symbols(), rows)
            since = np.array([one.active_ms // 1000 for one in active], np.float64)
            return self._series, np.concatenate([np.ones(len(active)), since])

    def to_tell(self, at_ms: int) -> list[Alert]:
        """What fires or has resolved and was not told yet, or not for a minute. It counts as told then."""
        told: list[Alert] = []
        valid_until_ms = at_ms + 4 * max(RESEND_MS, self._group.interval_ms)
        with self._lock:
            for one in self._alerts.values():
                if one.state is AlertState.PENDING or one.awaited_until_ms is not None:
                    continue  # of an awaited one there is nothing to say yet
                # The clock may have been set back since: then it is time, too.
                if one.told_as is not one.state or abs(at_ms - one.told_ms) >= RESEND_MS:
                    one.told_as, one.told_ms = one.state, at_ms
                    told.append(self._alert(one, valid_until_ms))
        return told

    def end(self, at_ms: int) -> list[Alert]:
        """The rule is no more: what fired has resolved."""
        with self._lock:
            firing = [one for one in self._alerts.values() if one.state is AlertState.FIRING]
            for one in firing:
                one.state, one.resolved_ms = AlertState.RESOLVED, at_ms
            self._alerts, self._series = {}, None
            return [self._alert(one) for one in firing]

    def _alert(self, one: _Active, valid_until_ms: int = 0) -> Alert:
        return Alert(
            labels=one.labels,
            annotations=one.annotations,
            state=one.state,
            value=one.value,
            active_ms=one.active_ms,
            fired_ms=one.fired_ms,
            resolved_ms=one.resolved_ms,
            keep_firing_since_ms=one.keep_firing_since_ms,
            evaluated_ms=self._evaluated_ms,
            valid_until_ms=valid_until_ms,
            rule_file=self._group.file,
            rule_group=self._group.name,
            generator_url=self._generator_url,
        )
