"""What /api/services answers, as types: the OpenAPI schema is made from them. Null is unknown."""

from __future__ import annotations

import msgspec


class QuantilesAnswer(msgspec.Struct, frozen=True):
    """Seconds; of several models the slowest."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class UntoldAnswer(msgspec.Struct, frozen=True):
    """A figure that is null: the metric that would tell it, if there is one, and what to do."""

    figure: str
    metric: str | None
    remedy: str


class BurnAnswer(msgspec.Struct, frozen=True):
    """How many times as fast as allowed the budget was spent over a window."""

    window: str
    rate: float


class SloAnswer(msgspec.Struct, frozen=True):
    """An objective of one service, or of one of its models. Shares are from 0 to 1.

    `state` is ok, slow (it burns too fast over days), fast (over hours), spent (nothing is left), or
    unmeasured. `current` is the good share over the objective's window, `budget_left` is below 0 when more
    was spent.
    """

    name: str
    description: str
    indicator: str
    threshold_s: float | None
    target: float
    window: str
    model: str | None
    state: str
    current: float | None
    budget_left: float | None
    burn_rate: float | None  # over the last hour
    burn: list[BurnAnswer]


class ServiceAnswer(msgspec.Struct, frozen=True):
    """One service: a workload, or what is scraped as one job where no workload is known.

    Rates are of the last two minutes. `errors_told_by` is `server`, or the proxy that counts them. Amounts
    are those of the present hour at the present rate of requests.
    """

    cluster: str
    namespace: str
    name: str
    kind: str | None
    team: str | None
    servers: list[str]
    models: list[str]
    replicas_up: float | None
    requests_per_s: float | None
    errors_per_s: float | None
    errors_ratio: float | None
    errors_told_by: str | None
    latency: QuantilesAnswer
    latency_mean_s: float | None
    ttft: QuantilesAnswer
    per_token: QuantilesAnswer
    queue_time: QuantilesAnswer
    running: float | None
    waiting: float | None
    prompt_tokens_per_s: float | None
    completion_tokens_per_s: float | None
    cache_used: float | None
    gpus: int | None
    currency: str | None
    per_hour: float | None
    per_1k_requests: float | None
    per_1m_tokens: float | None  # prompt and completion tokens
    per_1m_completion_tokens: float | None  # those that came out alone, as /api/cost/units has it
    state: str  # the worst of down and its objectives'; "" where it has none
    slos: list[SloAnswer]
    untold: list[UntoldAnswer]


class ServicesAnswer(msgspec.Struct, frozen=True):
    """`unmatched` are objectives that no service has, by name."""

    at_ms: int
    services: list[ServiceAnswer]
    unmatched: list[str]


class ModelAnswer(msgspec.Struct, frozen=True):
    """One model of a service, as one kind of server tells of it."""

    server: str
    model: str | None
    version: str | None
    requests_per_s: float | None
    latency: QuantilesAnswer
    ttft: QuantilesAnswer
    running: float | None
    waiting: float | None


class SloCurveAnswer(msgspec.Struct, frozen=True):
    """`burn_rate` is over the hour before each moment."""

    name: str
    model: str | None
    budget_left: list[float | None]
    burn_rate: list[float | None]


class ServiceDetail(msgspec.Struct, frozen=True):
    """One service at the end of a span, and its curves: a value for each of `t_ms`, null where nothing is
    known."""

    service: ServiceAnswer
    models: list[ModelAnswer]
    from_ms: int
    to_ms: int
    step_ms: int
    t_ms: list[int]
    curves: dict[str, list[float | None]]
    slo_curves: list[SloCurveAnswer]
