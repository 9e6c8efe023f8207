"""A sink for a sender that may tell of some clusters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.model.errors import Forbidden
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from trilens.collect.sink import SampleSink
    from trilens.model.labels import LabelFrame, Labels
    from trilens.model.series import AppendOutcome, Floats, Handles, Times

_CLUSTER: Final = "cluster"


class ClusterBound:
    """Thread-safe, as the sink is. A series of another cluster is refused, and with it the whole request;
    one that names none is of the sender's own, where it has just one."""

    def __init__(self, sink: SampleSink, clusters: frozenset[str]) -> None:
        self._sink = sink
        self._clusters = clusters

    def series(self, labels: Labels) -> int:
        named = dict(labels)
        cluster = own_cluster(named.get(_CLUSTER, ""), self._clusters)
        return self._sink.series(make_labels({**named, _CLUSTER: cluster}))

    def series_of(self, labels: LabelFrame) -> Handles:
        return np.array(
            [self.series(make_labels(labels.labels(row))) for row in range(len(labels))], np.int64
        )

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        return self._sink.held(handles)

    def append(self, handles: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        return self._sink.append(handles, t_ms, values)

    def durable(self) -> Future[None]:
        return self._sink.durable()

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        self._sink.describe(metric, kind, help_text, unit)


def own_cluster(named: str, clusters: frozenset[str]) -> str:
    """The cluster that something is of that names this one, or none. Raises Forbidden."""
    if named in clusters:
        return named
    known = ", ".join(sorted(clusters))
    if named:
        raise Forbidden(f"this token sends of the cluster {known} only, and this is of {named!r}")
    if len(clusters) != 1:
        raise Forbidden(f"this token sends of the clusters {known}, and this does not say of which it is")
    return next(iter(clusters))
