"""Puts together what is known of each job: its workload, its run, its ranks, its GPUs and its pods."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.detect.scene import JobView
from trilens.model.run import RunFacts
from trilens.serve.run_workloads import process_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from trilens.detect.scene import Place, PodView, RankView
    from trilens.model.run import RunId
    from trilens.model.workload import Membership, WorkloadKey
    from trilens.resolve.present import ClusterState, WorkloadState
    from trilens.serve.detection.scraped_ranks import ScrapedRank
    from trilens.serve.run_workloads import ProcessKey

_OVER_MS: Final = 15 * 60_000  # a run whose last rank was heard before that is no job any more
# Kinds that serve, unless a program in them tells of steps.
_SERVING: Final = frozenset(
    {
        "DaemonSet",
        "Deployment",
        "DynamoGraphDeployment",
        "InferenceService",
        "LLMInferenceService",
        "LeaderWorkerSet",
        "Model",
        "NIMService",
        "RayService",
        "SeldonDeployment",
        "StatefulSet",
    }
)


class Known(NamedTuple):
    """All that jobs are made of, at one moment."""

    now_ms: int
    clusters: Sequence[ClusterState]
    watched: Set[str]  # clusters whose workloads are all known: what is not there is gone
    pods: Mapping[WorkloadKey, Sequence[PodView]]
    places: Sequence[Place]
    ranks: Mapping[RunId, Sequence[RankView]]
    scraped: Sequence[ScrapedRank]
    members: Mapping[ProcessKey, Membership]
    servers: Set[WorkloadKey]
    facts: Callable[[RunId], RunFacts | None]


def jobs_of(known: Known) -> list[JobView]:
    rows: defaultdict[WorkloadKey, list[int]] = defaultdict(list)
    for row, place in enumerate(known.places):
        if place.workload is not None:
            rows[place.workload].append(row)
    states = {state.record.key: state for cluster in known.clusters for state in cluster.workloads}
    runs, alone = _by_workload(known, states)
    scraped, scraped_alone = _scraped_by_workload(known)
    jobs: list[JobView] = []
    for key, state in states.items():
        wants_gpu = any(pod.wants_gpu for pod in state.pods)
        if not (wants_gpu or key in rows or key in runs or key in scraped):
            continue
        of_runs = runs.get(key, ())
        ranks = scraped.get(key, ()) if not of_runs else known.ranks[of_runs[0]]
        jobs.append(_job(known, state, of_runs[0] if of_runs else None, ranks, rows.get(key, ())))
        # Further runs of one workload: their steps are watched, its pods and GPUs are told of once.
        jobs += (_run_alone(known, run, state) for run in of_runs[1:])
    jobs += (_run_alone(known, run, None) for run in alone)
    jobs += (
        JobView(None, None, 0, None, None, False, None, ranks, name="/".join(filter(None, name)))
        for name, ranks in scraped_alone.items()
    )
    return jobs


def _by_workload(
    known: Known, states: Mapping[WorkloadKey, WorkloadState]
) -> tuple[dict[WorkloadKey, list[RunId]], list[RunId]]:
    """The runs of each workload, the one heard last first; and those that are in none. A run whose workload
    was deleted is over."""
    found: defaultdict[WorkloadKey, list[tuple[int, RunId]]] = defaultdict(list)
    alone: list[RunId] = []
    for run, ranks in known.ranks.items():
        heard_ms = max(rank.heard_ms for rank in ranks)
        if heard_ms < known.now_ms - _OVER_MS:
            continue
        workload = _workload_of(ranks, known.members)
        if workload is not None and workload in states:
            found[workload].append((heard_ms, run))
            continue
        is_gone = _has_left(ranks, known) if workload is None else workload.cluster in known.watched
        if not is_gone:
            alone.append(run)
    return {key: [run for _, run in sorted(runs, reverse=True)] for key, runs in found.items()}, alone


def _has_left(ranks: Sequence[RankView], known: Known) -> bool:
    """Whether its pods, in clusters that are watched, are not there any more."""
    told = {
        (rank.process.cluster, rank.process.namespace or "", rank.process.pod)
        for rank in ranks
        if rank.process is not None and rank.process.pod
    }
    if not told or not known.watched:
        return False
    there = {
        named
        for cluster in known.clusters
        if cluster.cluster in known.watched
        for workload in cluster.workloads
        for pod in workload.pods
        for named in (pod.pod[:3], (None, *pod.pod[1:3]))
    }
    return not told & there


def _workload_of(ranks: Iterable[RankView], members: Mapping[ProcessKey, Membership]) -> WorkloadKey | None:
    for rank in ranks:
        if rank.process is not None and (member := members.get(process_key(rank.process))) is not None:
            return member.workload
    return None


def _scraped_by_workload(
    known: Known,
) -> tuple[dict[WorkloadKey, list[RankView]], dict[tuple[str, ...], list[RankView]]]:
    """Those of each workload; and those that are in none, by what their metrics call their job."""
    if not known.scraped:
        return {}, {}
    by_name: dict[tuple[str, str], WorkloadKey] = {}
    for cluster in known.clusters:
        for state in cluster.workloads:
            for pod in state.pods:
                by_name[pod.pod.namespace, pod.pod.name] = state.record.key
    found: defaultdict[WorkloadKey, list[RankView]] = defaultdict(list)
    alone: defaultdict[tuple[str, ...], list[RankView]] = defaultdict(list)
    for name, view in known.scraped:
        workload = by_name.get((name.namespace, name.pod)) if name.pod else None
        if workload is not None:
            found[workload].append(view)
        elif not name.pod:
            alone[name.cluster, name.namespace, name.job_name or name.job].append(view)
    return found, alone


def _job(
    known: Known,
    state: WorkloadState,
    run: RunId | None,
    ranks: Sequence[RankView],
    rows: Sequence[int],
) -> JobView:
    record, phase = state.record, state.phase
    is_server = record.key in known.servers or record.key.kind in _SERVING
    return JobView(
        record.key,
        record.team,
        record.attempt,
        phase.phase if phase is not None else None,
        phase.from_ms if phase is not None else None,
        is_server and not ranks,
        known.facts(run) or RunFacts(run, 0) if run is not None else None,
        ranks,
        rows or _rows_of(ranks),
        known.pods.get(record.key, ()),
    )


def _run_alone(known: Known, run: RunId, state: WorkloadState | None) -> JobView:
    ranks = known.ranks[run]
    phase = state.phase if state is not None else None
    return JobView(
        state.record.key if state is not None else _workload_of(ranks, known.members),
        state.record.team if state is not None else None,
        max((rank.process.attempt for rank in ranks if rank.process is not None), default=0),
        phase.phase if phase is not None else None,
        phase.from_ms if phase is not None else None,
        False,
        known.facts(run) or RunFacts(run, 0),
        ranks,
        _rows_of(ranks),
    )


def _rows_of(ranks: Iterable[RankView]) -> list[int]:
    return [rank.row for rank in ranks if rank.row is not None]
