"""Money as metrics, for dashboards and alerts: told whenever the open hour was booked.

Numbers here are floats, as all metrics are: `trilens cost` has the exact ones. Nothing is a counter: a
correction may lower what an hour has cost, which `increase` would take for a restart.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.collect.current_series import CurrentSeries
from trilens.ledger.answers.budgets import standing
from trilens.ledger.answers.burn import burn
from trilens.ledger.answers.cost import by_keys
from trilens.ledger.answers.forecast import month_bounds, month_of, spent_by
from trilens.ledger.answers.goodput import goodput
from trilens.ledger.answers.sharing import FLEET_KEY
from trilens.model.errors import StoreError
from trilens.model.ledger import HOUR_MS, as_amount, as_quanta
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.workload import WorkloadKey
from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.still_shown import series_still_shown
from trilens.serve.workload_metrics import Family, as_series, exposed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.ledger.answers.cost import Keys
    from trilens.ledger.source import LedgerBook
    from trilens.serve.money.cost import CostRules
    from trilens.store.store import Store

log = logging.getLogger(__name__)

_DAY_MS: Final = 24 * HOUR_MS

RATE: Final = "trilens_cost_rate_per_hour"
GPUS: Final = "trilens_cost_gpus"
UNPRICED: Final = "trilens_cost_unpriced_gpus"
TODAY: Final = "trilens_cost_today"
MONTH: Final = "trilens_cost_month"
WORKLOAD_RATE: Final = "trilens_workload_cost_rate_per_hour"
GOODPUT: Final = "trilens_goodput_ratio"
TEAM_GOODPUT: Final = "trilens_team_goodput_ratio"
BUDGET: Final = "trilens_budget_amount"
BUDGET_SPENT: Final = "trilens_budget_spent"
BUDGET_EXPECTED: Final = "trilens_budget_expected"

FAMILIES: Final = (
    Family(RATE, "gauge", "Money an hour now, by team and bucket; of the fleet without a team."),
    Family(GPUS, "gauge", "GPUs in each bucket now, on the average of the open hour."),
    Family(UNPRICED, "gauge", "GPUs now whose model has no price: not in any amount; absent where none is."),
    Family(TODAY, "gauge", "Money since midnight UTC, by team and bucket."),
    Family(MONTH, "gauge", "Money since the first of the month in UTC, by team."),
    Family(WORKLOAD_RATE, "gauge", "Money an hour now, by workload."),
    Family(GOODPUT, "gauge", "Useful GPU time of all that some signal told of, of the last 24 hours."),
    Family(TEAM_GOODPUT, "gauge", "The same of the GPUs that a team held."),
    Family(BUDGET, "gauge", "What may be spent this month, by what the budget is of."),
    Family(BUDGET_SPENT, "gauge", "What of that is spent; absent where it is in a currency without a rate."),
    Family(
        BUDGET_EXPECTED, "gauge", "What will be at the end of the month; absent while too little is known."
    ),
)


class CostMetrics:
    """Told in the keeper's thread; `metrics` may be asked from any other."""

    def __init__(self, book: LedgerBook, rules: Callable[[], CostRules], samples: Store | None) -> None:
        """`samples` is None where another server has them."""
        self._book = book
        self._rules = rules
        self._samples = samples
        self._series: CurrentSeries | None = None
        self._measured: list[PhaseSample] = []

    def metrics(self) -> Iterator[Metric]:
        return exposed(self._measured, FAMILIES)

    def tell(self, now_ms: int) -> None:
        self._measured = [
            *_rates(self._book, now_ms),
            *_amounts(self._book, now_ms),
            *_goodput(self._book, now_ms),
            *_standing(self._book, self._rules(), now_ms),
        ]
        if self._samples is not None:
            self._write(self._samples, now_ms)

    def _write(self, samples: Store, now_ms: int) -> None:
        try:
            if self._series is None:
                for family in FAMILIES:
                    samples.describe(family.metric, family.kind, family.help, "")
                self._series = CurrentSeries(samples, _still_shown(samples, self._measured, now_ms))
            self._series.write(as_series(self._measured), now_ms)
        except StoreError as e:
            log.warning("cost metrics were not taken", extra={"error": str(e)})


def _still_shown(
    samples: Store, measured: Iterable[PhaseSample], now_ms: int
) -> list[tuple[tuple[str, str], ...]]:
    clusters = {"", *(labels.get("cluster", "") for _, labels, _ in measured)}
    names = [family.metric for family in FAMILIES]
    return [labels for cluster in clusters for labels in series_still_shown(samples, names, cluster, now_ms)]


def _rates(book: LedgerBook, now_ms: int) -> Iterator[PhaseSample]:
    by = (Dimension.CLUSTER, Dimension.TEAM, Dimension.BUCKET)
    whole = burn(book, by, now_ms, {})
    gpus: defaultdict[Keys, float] = defaultdict(float)
    for rate in whole.rates if whole is not None else ():
        gpus[rate.keys] += rate.gpus
        if rate.currency:
            labels = _labels(("cluster", "team", "bucket"), rate.keys)
            yield PhaseSample(RATE, {**labels, "currency": rate.currency}, _amount(rate.quanta))
    for keys, count in gpus.items():
        yield PhaseSample(GPUS, _labels(("cluster", "team", "bucket"), keys), count)
    models = burn(book, (Dimension.CLUSTER, Dimension.GPU_MODEL), now_ms, {})
    for rate in models.rates if models is not None else ():
        if rate.unpriced:
            yield PhaseSample(UNPRICED, _labels(("cluster", "gpu_model"), rate.keys), rate.unpriced)
    workloads = burn(book, (Dimension.WORKLOAD, Dimension.TEAM), now_ms, {})
    named: defaultdict[tuple[tuple[str, str], ...], int] = defaultdict(int)
    for rate in workloads.rates if workloads is not None else ():
        key, team = rate.keys
        if isinstance(key, WorkloadKey) and rate.currency:
            # One that was deleted and made again within the hour has the same name.
            named[tuple(_of_workload(key, team, rate.currency).items())] += rate.quanta
    for pairs, quanta in named.items():
        yield PhaseSample(WORKLOAD_RATE, dict(pairs), _amount(quanta))


def _of_workload(key: WorkloadKey, team: object, currency: str) -> dict[str, str]:
    return {
        "cluster": key.cluster,
        "namespace": key.namespace,
        "workload": key.name,
        "kind": key.kind,
        "team": str(team or ""),
        "currency": currency,
    }


def _amounts(book: LedgerBook, now_ms: int) -> Iterator[PhaseSample]:
    end = now_ms - now_ms % HOUR_MS + HOUR_MS
    today = Window(now_ms - now_ms % _DAY_MS, end)
    by = (Dimension.CLUSTER, Dimension.TEAM, Dimension.BUCKET)
    for one in by_keys(book.sums(by, today)):
        if one.currency:
            labels = _labels(("cluster", "team", "bucket"), one.keys)
            yield PhaseSample(TODAY, {**labels, "currency": one.currency}, _amount(one.quanta))
    month = Window(month_bounds(now_ms)[0], end)
    for one in by_keys(book.sums(by[:2], month)):
        if one.currency:
            labels = _labels(("cluster", "team"), one.keys)
            yield PhaseSample(MONTH, {**labels, "currency": one.currency}, _amount(one.quanta))


def _goodput(book: LedgerBook, now_ms: int) -> Iterator[PhaseSample]:
    end = now_ms - now_ms % HOUR_MS + HOUR_MS
    day = Window(end - _DAY_MS, end)
    sums = book.sums((Dimension.CLUSTER, Dimension.TEAM), day)
    without_currency = [one._replace(currency="", quanta=0) for one in sums]
    for one in by_keys(without_currency, keep=(0,)):
        ratio = goodput(one).ratio
        if ratio is not None:
            yield PhaseSample(GOODPUT, _labels(("cluster",), one.keys), ratio)
    for one in by_keys(without_currency):
        ratio = goodput(one).ratio
        if ratio is not None and one.keys[1] is not None:
            yield PhaseSample(TEAM_GOODPUT, _labels(("cluster", "team"), one.keys), ratio)


def _standing(book: LedgerBook, rules: CostRules, now_ms: int) -> Iterator[PhaseSample]:
    if not rules.budgets:
        return
    month = month_of(book, now_ms)
    kinds = {Dimension(budget.of[0]) for budget in rules.budgets}
    spent = {one: spent_by(book, one, month, now_ms) for one in kinds}
    for budget in rules.budgets:
        kind, name = Dimension(budget.of[0]), budget.of[1]
        amount = as_quanta(budget.amount)
        stands = standing(kind, name, budget.currency, amount, spent[kind], month, rules.rates).forecast
        labels = {"of": kind.value, "name": name, "currency": budget.currency}
        yield PhaseSample(BUDGET, labels, float(budget.amount))
        if stands is None:
            continue
        yield PhaseSample(BUDGET_SPENT, labels, _amount(stands.spent))
        if stands.expected is not None:
            yield PhaseSample(BUDGET_EXPECTED, labels, _amount(stands.expected))


def _labels(names: Sequence[str], keys: Keys) -> dict[str, str]:
    return {name: "" if key in (None, FLEET_KEY) else str(key) for name, key in zip(names, keys, strict=True)}


def _amount(quanta: int) -> float:
    return float(as_amount(quanta))
