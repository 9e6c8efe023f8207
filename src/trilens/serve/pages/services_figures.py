"""What is recorded of services, asked in one query and put together by service."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.promql.annotations import quote
from trilens.serve.pages.services_answers import (
    ModelAnswer,
    QuantilesAnswer,
    ServiceAnswer,
    ServicesAnswer,
)
from trilens.serve.pages.services_slos import BAD, LEFT, slo_answer, worst
from trilens.serve.pages.services_untold import untold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.alert.slo.file import Objective
    from trilens.serve.own_queries import Matrix
    from trilens.serve.pages.services_answers import SloAnswer

REQUESTS: Final = "trilens:inference_requests:per_second"
ERRORS: Final = "trilens:inference_errors:per_second"
HTTP_REQUESTS: Final = "trilens:inference_http_requests:per_second"
HTTP_ERRORS: Final = "trilens:inference_http_errors:per_second"
LATENCY: Final = "trilens:inference_request_duration:seconds"
LATENCY_MEAN: Final = "trilens:inference_request_duration_mean:seconds"
TTFT: Final = "trilens:inference_time_to_first_token:seconds"
PER_TOKEN: Final = "trilens:inference_time_per_token:seconds"  # noqa: S105 - no password
QUEUE_TIME: Final = "trilens:inference_queue_time:seconds"
RUNNING: Final = "trilens:inference_running:count"
WAITING: Final = "trilens:inference_queue:count"
TOKENS: Final = "trilens:inference_tokens:per_second"
CACHE: Final = "trilens:inference_kv_cache_used:ratio"
UP: Final = "trilens:inference_up:ratio"
EVENTS: Final = "trilens:slo_events:per_second"
COST: Final = "trilens_workload_cost_rate_per_hour"
GPUS: Final = "gpus"

_ASKED: Final = (
    *(REQUESTS, ERRORS, HTTP_REQUESTS, HTTP_ERRORS, LATENCY, LATENCY_MEAN, TTFT, PER_TOKEN, QUEUE_TIME),
    *(RUNNING, WAITING, TOKENS, CACHE, UP, EVENTS, BAD, LEFT),
)
NAMES: Final = ("workload", "service", "job")  # a service is called by the first of these that it has
_PLACE: Final = "cluster, namespace, workload"
LABELS: Final = (
    *("__name__", "cluster", "namespace", "workload", "job", "service", "kind", "team", "server", "model"),
    *("version", "proxy", "quantile", "token", "slo", "window", "currency"),
)
_SUMMED_REQUESTS: Final = 3.6  # thousands of requests in an hour, of one a second


class ServiceKey(NamedTuple):
    cluster: str
    namespace: str
    name: str


def query(within: ServiceKey | None = None) -> str:
    """All of one moment; for one service, its namespace. One query, so that another server is asked once."""
    where = f"cluster={quote(within.cluster)}, namespace={quote(within.namespace)}" if within else ""
    serves = f"and on ({_PLACE}) trilens:inference_server_known:info{{{where}}}"
    gpus = f"count by ({_PLACE}) (trilens_workload_gpu_info{{{where}}}) {serves}"  # of many, few are left
    return (
        f'{{__name__=~"{"|".join(_ASKED)}"{", " if where else ""}{where}}}'
        f" or ({COST}{{{where}}} {serves})"
        f' or label_replace({gpus}, "__name__", "{GPUS}", "", "")'
    )


class _Row(NamedTuple):
    """The values of `LABELS`, and the value."""

    labels: Mapping[str, str]
    value: float

    @property
    def metric(self) -> str:
        return self.labels["__name__"]


class _Rows:
    """Of one service, or of one of its models."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._by_metric: defaultdict[str, list[_Row]] = defaultdict(list)
        for row in rows:
            self._by_metric[row.metric].append(row)
        self.all = rows

    def sum(self, metric: str, **labels: str) -> float | None:
        values = [*self._values(metric, labels)]
        return math.fsum(values) if values else None

    def max(self, metric: str, **labels: str) -> float | None:
        return max(self._values(metric, labels), default=None)

    def min(self, metric: str) -> float | None:
        return min(self._values(metric, {}), default=None)

    def quantiles(self, metric: str) -> QuantilesAnswer:
        return QuantilesAnswer(*(self.max(metric, quantile=one) for one in ("0.5", "0.95", "0.99")))

    def values_of(self, label: str) -> list[str]:
        return sorted({row.labels[label] for row in self.all if row.labels[label]})

    def of(self, metric: str) -> Sequence[_Row]:
        return self._by_metric.get(metric, ())

    def _values(self, metric: str, labels: Mapping[str, str]) -> Iterator[float]:
        for row in self.of(metric):
            if all(row.labels[name] == value for name, value in labels.items()):
                yield row.value


def services(matrix: Matrix, objectives: Sequence[Objective], at_ms: int) -> ServicesAnswer:
    found = _by_service(matrix)
    answers = [_service(key, rows, objectives) for key, rows in sorted(found.items())]
    measured = {slo.name for one in answers for slo in one.slos}
    unmatched = [one.name for one in objectives if one.name not in measured]
    return ServicesAnswer(at_ms, answers, unmatched)


class Served(NamedTuple):
    """One service; `named_by` are the labels that have its name."""

    service: ServiceAnswer
    models: list[ModelAnswer]
    named_by: set[str]


def one_service(matrix: Matrix, objectives: Sequence[Objective], key: ServiceKey) -> Served | None:
    rows = _by_service(matrix).get(key)
    if rows is None:
        return None
    named_by = {_named_by(row.labels) for row in rows.all}
    return Served(_service(key, rows, objectives), [*_models(rows)], named_by)


def _by_service(matrix: Matrix) -> dict[ServiceKey, _Rows]:
    """Only what some server or proxy tells of: money and GPUs of others are none."""
    found: defaultdict[ServiceKey, list[_Row]] = defaultdict(list)
    for texts, values in zip(matrix.keys, matrix.values.tolist(), strict=True):
        labels, value = dict(zip(LABELS, texts, strict=True)), values[-1]
        name = labels[_named_by(labels)]
        if name and math.isfinite(value):
            found[ServiceKey(labels["cluster"], labels["namespace"], name)].append(_Row(labels, value))
    return {
        key: _Rows(rows)
        for key, rows in found.items()
        if any(row.metric not in (COST, GPUS, EVENTS, BAD, LEFT) for row in rows)
    }


def _named_by(labels: Mapping[str, str]) -> str:
    return next((one for one in NAMES if labels[one]), NAMES[-1])


def _service(key: ServiceKey, rows: _Rows, objectives: Sequence[Objective]) -> ServiceAnswer:
    requests, errors, told_by = _counted(rows)
    prompt, completion = (rows.sum(TOKENS, token=one) for one in ("prompt", "completion"))
    currency, per_hour = _cost(rows)
    gpus, up = rows.sum(GPUS), rows.min(UP)
    latency, ttft, per_token = map(rows.quantiles, (LATENCY, TTFT, PER_TOKEN))
    running, waiting = rows.sum(RUNNING), rows.sum(WAITING)
    slos = _slos(rows, objectives)
    servers, kinds, teams = map(rows.values_of, ("server", "kind", "team"))
    known = {
        "requests_per_s": requests is not None,
        "errors_per_s": errors is not None,
        "latency": latency.p95 is not None,
        "ttft": ttft.p95 is not None,
        "per_token": per_token.p95 is not None,
        "running": running is not None,
        "waiting": waiting is not None,
    }
    return ServiceAnswer(
        *key,
        kinds[0] if kinds else None,
        teams[0] if teams else None,
        servers,
        rows.values_of("model"),
        up,
        requests,
        errors,
        errors / requests if errors is not None and requests else None,
        told_by,
        latency,
        rows.max(LATENCY_MEAN),
        ttft,
        per_token,
        rows.quantiles(QUEUE_TIME),
        running,
        waiting,
        prompt,
        completion,
        rows.max(CACHE),
        round(gpus) if gpus is not None else None,
        currency,
        per_hour,
        _each(per_hour, requests, _SUMMED_REQUESTS),
        _each(per_hour, _added(prompt, completion), _SUMMED_REQUESTS / 1_000),
        _each(per_hour, completion, _SUMMED_REQUESTS / 1_000),
        worst([*(one.state for one in slos), *(["down"] if up == 0 else [])]),
        slos,
        [*untold(known, servers, is_idle=not requests, has_cost=per_hour is not None)],
    )


def _counted(rows: _Rows) -> tuple[float | None, float | None, str | None]:
    """Requests, errors and who counts these: proxies see every failure, servers only some."""
    requests = rows.sum(REQUESTS)
    if (proxied := rows.sum(HTTP_ERRORS)) is not None:
        seen = rows.sum(HTTP_REQUESTS)
        proxy = next((row.labels["proxy"] for row in rows.of(HTTP_ERRORS)), "") or "proxy"
        return (seen if seen is not None else requests), proxied, proxy
    errors = rows.sum(ERRORS)
    return requests, errors, "server" if errors is not None else None


def _cost(rows: _Rows) -> tuple[str | None, float | None]:
    """None where its GPUs are paid in two currencies."""
    currencies = {row.labels["currency"] for row in rows.of(COST)}
    if len(currencies) != 1:
        return None, None
    return currencies.pop(), rows.sum(COST)


def _each(per_hour: float | None, per_second: float | None, many: float) -> float | None:
    return per_hour / (per_second * many) if per_hour is not None and per_second else None


def _added(*amounts: float | None) -> float | None:
    known = [one for one in amounts if one is not None]
    return math.fsum(known) if known else None


def _slos(rows: _Rows, objectives: Sequence[Objective]) -> list[SloAnswer]:
    recorded: defaultdict[tuple[str, str], list[_Row]] = defaultdict(list)
    for metric in (EVENTS, BAD, LEFT):
        for row in rows.of(metric):
            recorded[row.labels["slo"], row.labels["model"]].append(row)
    return [
        _slo(objective, model, own)
        for objective in objectives
        for (name, model), own in sorted(recorded.items())
        if name == objective.name
    ]


def _slo(objective: Objective, model: str, rows: Iterable[_Row]) -> SloAnswer:
    """Of several jobs of one workload, the worst."""
    bad: dict[str, float] = {}
    left: float | None = None
    for row in rows:
        if row.metric == BAD:
            window = row.labels["window"]
            bad[window] = max(row.value, bad.get(window, 0.0))
        elif row.metric == LEFT:
            left = row.value if left is None else min(left, row.value)
    return slo_answer(objective, model or None, bad, left)


def _models(rows: _Rows) -> Iterator[ModelAnswer]:
    found: defaultdict[tuple[str, str, str], list[_Row]] = defaultdict(list)
    for row in rows.all:
        labels = row.labels
        if labels["server"]:
            found[labels["server"], labels["model"], labels["version"]].append(row)
    for (server, model, version), own in sorted(found.items()):
        each = _Rows(own)
        yield ModelAnswer(
            server,
            model or None,
            version or None,
            each.sum(REQUESTS),
            each.quantiles(LATENCY),
            each.quantiles(TTFT),
            each.sum(RUNNING),
            each.sum(WAITING),
        )
