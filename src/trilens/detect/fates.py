"""What has become of a rank that is not heard any more: dead, frozen, off with its node, or only not heard.

What says so: how its process ended, its pod and its node, its GPU, which keeps the memory of a process as
long as that lives, and goes on computing when only the way here is cut, and its socket, which the kernel
holds open as long as the process lives, whether or not Python runs in it. A node of which nothing is heard at
all, neither of its programs nor of its GPUs, is gone, long before Kubernetes says so.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.detect.reporting import Reporting
from trilens.detect.scene import Figure, ToldBy
from trilens.model.run import Ending

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.detect.scene import JobView, PodView, RankView, Scene
    from trilens.model.run import RankProcess

SILENT_MS: Final = 90_000  # a program whose metrics were not scraped for so long is not heard: many are asked
# every 30 s, and one scrape may fail
_SETTLE_MS: Final = 5_000  # until a GPU's readings show what has happened
_BEFORE_MS: Final = 60_000
_HELD: Final = 0.7  # of the memory it had: its process is there
_SOME_MEMORY: Final = 0.01
_WORKS: Final = 0.6  # of the power it took before
_RUNS: Final = 0.5  # utilisation
_TOGETHER_MS: Final = 20_000  # within which all of a node fall silent that falls silent


class Fate(StrEnum):
    ALIVE = "alive"
    FINISHED = "finished"
    FAILED = "failed"  # it said so itself
    DEAD = "dead"
    FROZEN = "frozen"  # its process is there, and does nothing
    NODE_GONE = "node-gone"
    LEFT = "left"  # its pod is gone, or has done its work: nobody's fault
    UNHEARD = "unheard"  # it goes on, as far as its GPU tells: only nobody hears it
    UNKNOWN = "unknown"  # not heard, and nothing tells why

    @property
    def is_over(self) -> bool:
        """Nothing more is to come of it."""
        return self in (Fate.FAILED, Fate.DEAD, Fate.NODE_GONE)


class Surroundings:
    """What a scene says beside the ranks themselves, looked up once."""

    def __init__(self, scene: Scene) -> None:
        self._telemetry = scene.telemetry
        self._now_ms = scene.now_ms
        self._lost_nodes = {node.node for node in scene.nodes if node.is_ready is False}

    def fate(self, rank: RankView, job: JobView) -> Fate:
        process = rank.process
        if process is None:
            is_silent = rank.told_by is ToldBy.METRICS and self._now_ms - rank.heard_ms > SILENT_MS
            return self._of_silent(rank, job) if is_silent else Fate.ALIVE
        match process.ending:
            case None:
                return Fate.ALIVE
            case Ending.FINISHED:
                return Fate.FINISHED
            case Ending.FAILED:
                return Fate.FAILED
            case Ending.LOST:
                return self._of_silent(rank, job)

    def is_lost(self, node: str) -> bool:
        return node in self._lost_nodes

    def pod_of(self, rank: RankView, job: JobView) -> PodView | None:
        """Its own. One of the same name may have come after it."""
        process = rank.process
        if process is None:
            return None
        for pod in job.pods:
            if process.pod_uid:
                is_own = pod.pod.uid == process.pod_uid
            else:
                is_own = pod.pod.name == process.pod and (pod.created_ms or 0) <= process.heard_ms
            if is_own:
                return pod
        return None

    def _of_silent(self, rank: RankView, job: JobView) -> Fate:
        process, pod = rank.process, self.pod_of(rank, job)
        if pod is None and process is not None and _has_successor(process, job):
            return Fate.LEFT
        if pod is not None and pod.state == "Failed":
            return Fate.DEAD if pod.asked_to_go_ms is None else Fate.LEFT
        if pod is not None and pod.state in ("Gone", "Succeeded"):
            return Fate.LEFT
        node = pod.node if pod is not None else process.node if process is not None else ""
        if self.is_lost(node) or (pod is not None and pod.state == "Unknown"):
            return Fate.NODE_GONE
        if pod is not None and pod.asked_to_go_ms is not None:
            return Fate.LEFT
        if self._is_silent_throughout(node, rank, job):
            return Fate.NODE_GONE
        told = self._by_gpu(rank)
        if told is not None:
            return told
        if rank.listens is not None:
            return Fate.FROZEN if rank.listens else Fate.DEAD
        # A container whose process has died does not go on running.
        return Fate.UNHEARD if pod is not None and pod.state == "Running" else Fate.UNKNOWN

    @cached_property
    def _last_heard_ms(self) -> dict[str, int | None]:
        """Of nodes with GPUs: when the last of these spoke, of those where none does any more; else None."""
        reporting = Reporting(self._telemetry, self._now_ms)
        found: dict[str, int | None] = {}
        told = zip(
            self._telemetry.places,
            reporting.is_silent.tolist(),
            reporting.is_heard.tolist(),
            reporting.last_ms.tolist(),
            strict=True,
        )
        for place, is_silent, is_heard, last_ms in told:
            if is_heard:
                found[place.node] = None
            elif is_silent:
                known = found.setdefault(place.node, last_ms)
                found[place.node] = known if known is None else max(known, last_ms)
        return found

    def _is_silent_throughout(self, node: str, rank: RankView, job: JobView) -> bool:
        """Neither its GPUs nor any program of this job on it are heard, all since about the same time, while
        other nodes are heard and the job does not go on without it."""
        last_ms = self._last_heard_ms.get(node) if node else None
        if last_ms is None or abs(last_ms - rank.heard_ms) > _TOGETHER_MS:
            return False
        if all(heard_ms is not None for heard_ms in self._last_heard_ms.values()):
            return False  # it is rather us who hear nothing
        heartbeat_ms = 1000 * rank.process.heartbeat_s if rank.process is not None else 0.0
        by_then_ms = max(last_ms, rank.heard_ms) + heartbeat_ms
        for other in job.ranks:
            if other.process is not None and other.process.node == node:
                if other.process.ending is None:
                    return False
            elif len(other.steps) and other.steps.end_ms[-1] - by_then_ms > np.nan_to_num(other.steps.ms[-1]):
                return False  # one step may have been on its way
        return True

    def _by_gpu(self, rank: RankView) -> Fate | None:
        if rank.row is None:
            return None
        times = self._telemetry.times_ms
        before = (times > rank.heard_ms - _BEFORE_MS) & (times <= rank.heard_ms)
        after = times > rank.heard_ms + _SETTLE_MS
        had, has = self._levels(Figure.MEMORY_USED, rank.row, before, after)
        if np.isnan(had) or np.isnan(has) or had < _SOME_MEMORY:
            return None
        if has < _HELD * had:
            return Fate.DEAD
        took, takes = self._levels(Figure.POWER, rank.row, before, after)
        _, runs = self._levels(Figure.UTILIZATION, rank.row, before, after)
        if np.isnan(takes) and np.isnan(runs):
            return None
        works = (np.isnan(takes) or np.isnan(took) or takes >= _WORKS * took) and not runs < _RUNS
        return Fate.UNHEARD if works else Fate.FROZEN

    def _levels(
        self, figure: Figure, row: int, before: NDArray[np.bool_], after: NDArray[np.bool_]
    ) -> tuple[float, float]:
        """The usual reading before, and the last one after."""
        values = self._telemetry.figures.get(figure)
        if values is None:
            return float("nan"), float("nan")
        old, new = values[row][before], values[row][after]
        old, new = old[~np.isnan(old)], new[~np.isnan(new)]
        return (
            float(np.median(old)) if len(old) else float("nan"),
            float(new[-1]) if len(new) else float("nan"),
        )


def _has_successor(process: RankProcess, job: JobView) -> bool:
    """Whether its pod went, and its job has others by now."""
    if process.pod_uid:
        return bool(job.pods)
    return any(pod.pod.name == process.pod for pod in job.pods)
