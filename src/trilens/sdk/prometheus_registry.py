"""The metrics of a run through prometheus_client, for a program that serves those already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.sdk.recorder import Recorder


class RunCollector:
    """Shows nothing in a forked child, whose parent shows it, and nothing after the end of the run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        if self._recorder.silent:
            return
        for name, family in self._recorder.metrics.families().items():
            labels = list(dict.fromkeys(label for pairs in family.series for label, _ in pairs))
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            shown = kind(name, family.help, labels=labels)
            for pairs, value in family.series.items():
                own = dict(pairs)
                shown.add_metric([own.get(label, "") for label in labels], value)
            yield shown

    def describe(self) -> list[Any]:
        return []  # known only at each scrape


def export_to(recorder: Recorder, registry: Any) -> None:
    if registry is None:
        from prometheus_client import REGISTRY

        registry = REGISTRY
    collector = RunCollector(recorder)
    registry.register(collector)
    recorder.at_finish(lambda: registry.unregister(collector))
