"""What the resolvers know as metrics: into the store, and on /metrics/workloads for a Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.resolve.info import POD_INFO, pod_info
from trilens.resolve.phase_metrics import PHASE, PHASE_SECONDS, PhaseSample, phase_metrics
from trilens.serve.still_shown import series_still_shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.model.labels import Labels
    from trilens.promql.source import SeriesSource
    from trilens.resolve.phase_metrics import Resolver


class Family(NamedTuple):
    metric: str
    kind: str
    help: str


FAMILIES: Final = (
    Family(POD_INFO, "gauge", "1 for each pod of a workload, with its place in it as labels."),
    Family(PHASE, "gauge", "1 for the phase that a workload is in."),
    Family(PHASE_SECONDS, "counter", "Time that a workload spent in each phase."),
)


def measured(resolver: Resolver, at_ms: int) -> list[PhaseSample]:
    pods = pod_info(resolver.open_memberships, resolver.workloads())
    return [*(PhaseSample(POD_INFO, labels, 1.0) for labels in pods), *phase_metrics(resolver, at_ms)]


def as_series(samples: Iterable[PhaseSample]) -> dict[Labels, float]:
    return {make_labels({**labels, METRIC_NAME: metric}): value for metric, labels, value in samples}


def exposed(samples: Sequence[PhaseSample], families: Iterable[Family] = FAMILIES) -> Iterator[Metric]:
    for family in families:
        of_family = [sample for sample in samples if sample.metric == family.metric]
        if not of_family:
            continue
        names = list(of_family[0].labels)
        make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = make(family.metric.removesuffix("_total"), family.help, labels=names)
        for _, labels, value in of_family:
            metric.add_metric([labels[name] for name in names], value)
        yield metric


def still_shown(source: SeriesSource, cluster: str, at_ms: int) -> Iterator[Labels]:
    """Of a cluster's, told before a restart."""
    return series_still_shown(source, [family.metric for family in FAMILIES], cluster, at_ms)
