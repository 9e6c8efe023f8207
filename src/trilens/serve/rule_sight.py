"""Which alerting rules are blind: looked at every half minute, told as a metric."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from trilens.alert.blindness import BlindRule, blind_rules
from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import TrilensError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.serve.still_shown import series_still_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.alert.rule import AlertingRule, RuleGroup
    from trilens.model.matcher import Matcher
    from trilens.store.store import Store

log = logging.getLogger(__name__)

METRIC: Final = "trilens_rule_blind"
_HELP: Final = "1 for an alerting rule that can find nothing, as what it looks at is nowhere."
_LOOK_S: Final = 30.0
LATE_MS: Final = 24 * 3_600_000  # jobs come and go: what one told yesterday can be told


class RuleSight:
    """A thread of its own; everything public may be called from any other."""

    def __init__(self, groups: Callable[[], Sequence[RuleGroup]], store: Store) -> None:
        self._groups = groups
        self._store = store
        self._series: CurrentSeries | None = None
        self._blind: list[BlindRule] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trilens-rule-sight", daemon=True)

    def start(self) -> None:
        self._store.describe(METRIC, "gauge", _HELP, "")
        self._series = CurrentSeries(self._store, series_still_shown(self._store, [METRIC], "", _now_ms()))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def blind(self) -> dict[tuple[RuleGroup, AlertingRule], BlindRule]:
        """As they were last seen."""
        return {(one.group, one.rule): one for one in self._blind}

    def metrics(self) -> Iterator[Metric]:
        yield blind_family(self._blind)

    def look(self) -> None:
        self._blind = blind_rules(self._groups(), self._has_metric)
        if self._series is not None:
            told = {
                make_labels({METRIC_NAME: METRIC, "alertname": alert, "missing": missing}): 1.0
                for alert, missing in _told(self._blind)
            }
            self._series.write(told, _now_ms())

    def _has_metric(self, name: str, matchers: tuple[Matcher, ...]) -> bool:
        now = _now_ms()
        return bool(self._store.label_values(METRIC_NAME, matchers, now - LATE_MS, now, QueryGuard()))

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                self.look()
            except TrilensError as e:
                log.warning("which rules are blind is not known", extra={"error": str(e)})
            except Exception:
                log.exception("which rules are blind is not known, which is a defect")


def blind_family(blind: Sequence[BlindRule]) -> Metric:
    family = GaugeMetricFamily(METRIC, _HELP, labels=["alertname", "missing"])
    for alert, missing in _told(blind):
        family.add_metric([alert, missing], 1)
    return family


def _told(blind: Sequence[BlindRule]) -> list[tuple[str, str]]:
    """Several rules may have one name, and lack the same."""
    return list(dict.fromkeys((one.rule.alert, missing) for one in blind for missing in one.missing))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
