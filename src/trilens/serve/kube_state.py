"""Clusters as kube-state-metrics would show them, where it is absent: into the store, and as a page."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from trilens.collect.keyed_series import KeyedSeries
from trilens.model.errors import StoreError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.series import STALE_NAN
from trilens.resolve.kube_state.families import FAMILIES, SELDOM_READ
from trilens.resolve.kube_state.kinds import TELLERS, state_samples
from trilens.serve.kube_state_page import page
from trilens.serve.still_shown import series_still_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.labels import Labels
    from trilens.store.store import Store

log = logging.getLogger(__name__)

Mode = Literal["auto", "on", "off"]
Stored = Literal["used", "all"]

_WRITE_S: Final = 30.0
_LOOK_S: Final = 1.0  # how soon a change of mind shows
_AT_A_TIME: Final = 10  # objects, which take 10 ms when they are new: others wait for this event loop


@dataclass(slots=True)
class _Cluster:
    objects: dict[str, KubeObject] = field(default_factory=dict)  # by uid
    changed: dict[str, None] = field(default_factory=dict)  # since it was told last; all, when it was not
    foreign_job: str | None = None  # of the kube-state-metrics that tells of it
    is_looked_at: bool = False  # whether there is one has been found out
    is_read_through: bool = False
    series: KeyedSeries[str] | None = None
    is_told: bool = False
    is_cleared: bool = False  # what was told before a restart, and is not told now, has its end
    due_s: float = 0.0


class KubeStateExport:
    """An ObjectSink. `run` it on the loop that tells the objects; all else may be asked from any thread."""

    def __init__(
        self,
        clusters: Collection[str],
        mode: Mode,
        samples: Store | None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        stored: Stored = "all",
    ) -> None:
        """`samples` is None where another server holds them: there is only the page then.

        `stored` says whether that gets everything, or not what is seldom read; the page has it all.
        """
        self._mode = mode
        self._samples = samples
        self._clock = clock
        self._now_ms = now_ms
        self._left_out = SELDOM_READ if stored == "used" else frozenset()
        self._clusters = {name: _Cluster() for name in clusters}

    # What goes in

    def changed(self, obj: KubeObject) -> None:
        if obj.group_kind in TELLERS:
            cluster = self._clusters[obj.cluster]
            cluster.objects[obj.uid] = obj
            if cluster.is_told:
                cluster.changed[obj.uid] = None

    def removed(self, obj: KubeObject) -> None:
        cluster = self._clusters[obj.cluster]
        if cluster.objects.pop(obj.uid, None) is not None and cluster.is_told:
            cluster.changed[obj.uid] = None

    def synced(self, cluster: str, kind: GroupKind) -> None:
        pass

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        pass

    def found(self, foreign: Mapping[str, str]) -> None:
        """By cluster: the job of a kube-state-metrics that tells of it. The others have none."""
        for name, cluster in self._clusters.items():
            cluster.foreign_job = foreign.get(name)
            cluster.is_looked_at = True

    # What comes out

    @property
    def mode(self) -> Mode:
        return self._mode

    def is_of(self, cluster: str, uid: str) -> bool:
        return uid in self._clusters[cluster].objects

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._clusters)

    def states(self) -> dict[str, str]:
        """In words, by cluster."""
        return {name: self._state(cluster) for name, cluster in self._clusters.items()}

    def _state(self, cluster: _Cluster) -> str:
        if self._mode == "off":
            return "off"
        if not self._is_decided(cluster):
            return "silent: not known yet whether a kube-state-metrics is scraped"
        if self._mode == "auto" and cluster.foreign_job is not None:
            return f"silent: job {cluster.foreign_job!r} scrapes a kube-state-metrics"
        return "exported" if cluster.is_read_through else "silent: not read through yet"

    def page(self) -> bytes:
        return page(
            {name: list(one.objects.values()) for name, one in self._clusters.items() if self._tells(one)}
        )

    async def run(self, read_through: Callable[[], Collection[str]]) -> None:
        """`read_through` says of which clusters all is known: the others would be told in part."""
        if self._samples is not None and self._mode != "off":
            for metric, help_text, kind in FAMILIES:
                self._samples.describe(metric, kind, help_text, "")
        while True:
            await self.tell(tuple(read_through()))
            await asyncio.sleep(_LOOK_S)

    async def tell(self, read_through: Collection[str]) -> None:
        """Write what is due: every half minute, and at once when it is a cluster's turn to speak, or not."""
        for name in read_through:
            cluster = self._clusters[name]
            cluster.is_read_through = True
            now_s = self._clock()
            if self._samples is None or not self._is_decided(cluster):
                continue  # what was told before a restart is neither told again yet nor ended
            if cluster.due_s > now_s and cluster.is_told == self._tells(cluster):
                continue
            cluster.due_s = now_s + _WRITE_S
            await self._write_guarded(name, cluster, self._samples)

    async def _write_guarded(self, name: str, cluster: _Cluster, samples: Store) -> None:
        try:
            await self._write(name, cluster, samples)
        except StoreError as e:
            log.warning("kube_* series were not taken", extra={"cluster": name, "error": str(e)})
        except Exception:  # a defect here must not end the watching
            log.exception("kube_* series failed", extra={"cluster": name})

    async def _write(self, name: str, cluster: _Cluster, samples: Store) -> None:
        series = cluster.series = cluster.series or KeyedSeries(samples)
        if self._tells(cluster):
            if not cluster.is_told or not series.are_held():
                cluster.changed = dict.fromkeys(cluster.objects)
            cluster.is_told = True
            await _take_over(cluster, series, self._left_out)
        else:
            cluster.is_told = False
            series.drop_all()
        at_ms = self._now_ms()
        await asyncio.to_thread(series.write, at_ms)
        if not cluster.is_cleared:
            await asyncio.to_thread(_end_what_is_still_shown, samples, name, at_ms)
            cluster.is_cleared = True

    def _is_decided(self, cluster: _Cluster) -> bool:
        return self._mode != "auto" or cluster.is_looked_at

    def _tells(self, cluster: _Cluster) -> bool:
        if self._mode == "auto":
            is_wanted = cluster.is_looked_at and cluster.foreign_job is None
        else:
            is_wanted = self._mode == "on"
        return is_wanted and cluster.is_read_through


async def _take_over(cluster: _Cluster, series: KeyedSeries[str], left_out: Collection[str]) -> None:
    """What changed since the last time, some objects at a time."""
    changed, cluster.changed = list(cluster.changed), {}
    for i, uid in enumerate(changed, 1):
        obj = cluster.objects.get(uid)
        if obj is None:
            series.drop(uid)
        else:
            _put(obj, series, left_out)
        if i % _AT_A_TIME == 0:
            await asyncio.sleep(0)


def _put(obj: KubeObject, series: KeyedSeries[str], left_out: Collection[str]) -> None:
    try:
        series.put(obj.uid, _as_series(obj, left_out))
    except Exception:  # an object that nobody can make sense of must not silence the others
        log.exception("an object is not told", extra={"kind": str(obj.group_kind), "object": obj.name})


def _end_what_is_still_shown(samples: Store, cluster: str, at_ms: int) -> None:
    """Of what was told before a restart, all that is not told now."""
    shown = series_still_shown(samples, [family.metric for family in FAMILIES], cluster, at_ms)
    handles = np.array([samples.series(labels) for labels in shown], np.int64)
    if len(handles):
        samples.append(handles, np.full(len(handles), at_ms, np.int64), np.full(len(handles), STALE_NAN))


def _as_series(obj: KubeObject, left_out: Collection[str]) -> dict[Labels, float]:
    return {
        make_labels({**labels, METRIC_NAME: metric}): value
        for metric, value, labels in state_samples(obj)
        if metric not in left_out
    }
