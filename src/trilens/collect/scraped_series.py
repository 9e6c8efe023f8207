"""A scraped series becomes a stored one: target labels, relabelling, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.exposition import DROPPED
from trilens.collect.relabel import relabel
from trilens.model.errors import ExpositionError, ScrapeLimitExceeded
from trilens.model.labels import METRIC_NAME, Labels, make_labels

if TYPE_CHECKING:
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.exposition.grammar import LabelPairs
    from trilens.collect.sink import SampleSink


class SeriesResolver:
    """Called once in a series' life on a target; `added` counts those that were kept."""

    def __init__(self, config: ScrapeConfig, target_labels: Labels, sink: SampleSink) -> None:
        self._config = config
        self._target_labels = dict(target_labels)
        self._sink = sink
        self._limited = bool(
            config.label_limit or config.label_name_length_limit or config.label_value_length_limit
        )
        self.added = 0

    def __call__(self, exposed: LabelPairs) -> int:
        labels = self._with_target_labels(dict(exposed))
        if self._config.metric_relabel_configs:
            relabelled = relabel(labels, self._config.metric_relabel_configs)
            if not relabelled:
                return DROPPED
            labels = relabelled
        if not labels.get(METRIC_NAME):
            raise ExpositionError(f"relabelling left a series without a name: {labels}")
        if self._limited:
            self._check_limits({name: value for name, value in labels.items() if value})
        self.added += 1
        return self._sink.series(make_labels(labels))

    def _with_target_labels(self, exposed: dict[str, str]) -> dict[str, str]:
        if self._config.honor_labels:
            # An exposed label that is empty also wins: that is how an exporter refuses a target label.
            return {**self._target_labels, **exposed}
        merged = {**exposed, **self._target_labels}
        if len(merged) == len(exposed) + len(self._target_labels):
            return merged  # no name in common
        # Shortest first, so that `a` gives up `exported_a` before an exposed `exported_a` has to move on.
        for name in sorted(exposed.keys() & self._target_labels.keys(), key=lambda name: (len(name), name)):
            if exposed[name]:
                moved = f"exported_{name}"
                while moved in merged:
                    moved = f"exported_{moved}"
                merged[moved] = exposed[name]
        return merged

    def _check_limits(self, labels: dict[str, str]) -> None:
        config = self._config
        if config.label_limit and len(labels) > config.label_limit:
            found = f"{labels[METRIC_NAME]} has {len(labels)} labels"
            raise ScrapeLimitExceeded("label_limit", config.label_limit, found)
        longest_name, longest_value = config.label_name_length_limit, config.label_value_length_limit
        for name, value in labels.items():
            if longest_name and len(name.encode()) > longest_name:
                found = f"the label {name!r} of {labels[METRIC_NAME]}"
                raise ScrapeLimitExceeded("label_name_length_limit", longest_name, found)
            if longest_value and len(value.encode()) > longest_value:
                found = f"the value of {name!r} of {labels[METRIC_NAME]} has {len(value.encode())} bytes"
                raise ScrapeLimitExceeded("label_value_length_limit", longest_value, found)
