"""What the resolvers know as metrics: into the store, and on /metrics/workloads for a Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.model.series import Matcher, SelectRequest, stale_mask
from trilens.resolve.info import POD_INFO, pod_info
from trilens.resolve.phase_metrics import PHASE, PHASE_SECONDS, PhaseSample, phase_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.model.labels import Labels
    from trilens.promql.source import SeriesSource
    from trilens.resolve.resolver import ClusterResolver

LOOKBACK_MS: Final = 5 * 60_000  # for so long PromQL shows the last sample of a series that was not ended


class Family(NamedTuple):
    metric: str
    kind: str
    help: str


FAMILIES: Final = (
    Family(POD_INFO, "gauge", "1 for each pod of a workload, with its place in it as labels."),
    Family(PHASE, "gauge", "1 for the phase that a workload is in."),
    Family(PHASE_SECONDS, "counter", "Time that a workload spent in each phase."),
)


def measured(resolver: ClusterResolver, at_ms: int) -> list[PhaseSample]:
    pods = pod_info(resolver.open_memberships, resolver.workloads())
    return [*(PhaseSample(POD_INFO, labels, 1.0) for labels in pods), *phase_metrics(resolver, at_ms)]


def as_series(samples: Iterable[PhaseSample]) -> dict[Labels, float]:
    return {make_labels({**labels, METRIC_NAME: metric}): value for metric, labels, value in samples}


def exposed(samples: Sequence[PhaseSample]) -> Iterator[Metric]:
    for family in FAMILIES:
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
    """The series of a cluster that a query at this moment would find, told before a restart.

    Only those of our own making: what is scraped from another Trilens has a job.
    """
    for family in FAMILIES:
        matchers = (
            Matcher(METRIC_NAME, "=", family.metric),
            Matcher("cluster", "=", cluster),
            Matcher("job", "=", ""),
        )
        found = source.select(SelectRequest(matchers, at_ms - LOOKBACK_MS, at_ms), QueryGuard())
        samples = found.samples
        for row in range(len(found.labels)):
            begin, end = samples.offsets[row], samples.offsets[row + 1]
            if end > begin and not stale_mask(samples.v[end - 1 : end])[0]:
                yield make_labels(found.labels.labels(row))
