"""What shows of a job that does not train or serve as it did: at first sight, before anybody asks why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.found import facts_of, frozen_ranks, rank_name
from trilens.diagnose.pace import SLOWER, paces
from trilens.diagnose.recent import before, now
from trilens.diagnose.scheduling.waiting import node_of
from trilens.model.finding import FindingKind, Severity
from trilens.model.life import Phase
from trilens.model.rank_errors import only_follows
from trilens.model.run import Ending
from trilens.model.verdict import Fact
from trilens.resolve.reading import conditions, items, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseTarget
    from trilens.model.kubernetes import KubeObject
    from trilens.model.run import RankProcess

_FELL: Final = (Phase.FAILED, Phase.RESTARTING, Phase.PREEMPTED, Phase.EVICTED, Phase.SPOT_RECLAIMED)
_SLOWER_ANSWERS: Final = 2.0  # times what they took
_STOPPED: Final = (Phase.SUCCEEDED, Phase.SUSPENDED, Phase.QUEUED, Phase.ADMITTED)
_FEW: Final = 3
_ENOUGH_TARGETS: Final = 2  # that are silent at once: one alone may be its own fault
_KUBELET_LIVES: Final = "KubeletNotReady"  # told by the kubelet; of one that is silent others tell
_HEARD_MS: Final = 30_000  # clocks of nodes and the server differ
# What alerts tell where no detector does: programs that are only scraped, servers.
_ALERTS: Final = {
    "crashed": ("TrainingVanished", "PodCrashLooping", "PodOomKilled", "InferenceDown"),
    "hang": ("TrainingStalled", "TrainingStepsStopped", "TrainingRankMissing"),
    "slower": (
        "TrainingSlow",
        "TrainingDataBound",
        "GpuThrottledByHeat",
        "GpuPowerBrake",
        "GpuHardwareSlowdown",
    ),
    "not-learning": (
        "TrainingLossNotFinite",
        "TrainingGradientExploding",
        "TrainingGradientVanishing",
        "TrainingLossNotDecreasing",
        "TrainingLossDiverging",
        "TrainingValidationGap",
    ),
    "service": (
        "InferenceP99High",
        "InferenceP95High",
        "InferenceFirstTokenSlow",
        "InferenceQueueGrowing",
        "SloBurningFast",  # measured wherever whoever set the goal wants, such as at a gateway
        "SloBurningSlow",
    ),
}


def crashed(case: Case) -> Iterator[Fact]:
    yield from _found(case, FindingKind.CRASH)
    yield from _alerted(case, "crashed")
    fallen = [one for one in case.lives if _has_fallen(case, one)]
    for process in fallen[:_FEW]:
        said = process.error or "it is not heard any more"
        last = said.strip().splitlines()[-1]
        yield Fact(f"{rank_name(process)}: {last}", "the rank itself", process.ended_ms)
    for one in case.file.phases:
        if one.to_ms is None and one.phase in _FELL:
            yield Fact(f"it is {one.phase}: {one.reason}", "its phases", one.from_ms)
    for pod in case.pods:
        if is_followed(case, pod):
            continue
        status = section(pod.body, "status")
        if (gone := node_gone(case, pod) or node_silent(case, node_of(pod))) is not None:
            yield gone
        if text(status, "phase") == "Failed":
            yield Fact(
                f"{pod.name} has failed {text(status, 'reason')}".rstrip(), f"status of Pod {pod.name}"
            )
        for container in items(status, "containerStatuses"):
            if text(section(container, "state", "waiting"), "reason") == "CrashLoopBackOff":
                yield Fact(f"{pod.name} is in CrashLoopBackOff", f"status of Pod {pod.name}")


def _has_fallen(case: Case, process: RankProcess) -> bool:
    """Of a job that was stopped on purpose, or waits for its turn again, only who gave its own reason."""
    if any(one.to_ms is None and one.phase in _STOPPED for one in case.file.phases):
        return process.ending is Ending.FAILED and not only_follows(process.error or "sigterm")
    return is_lost(case, process) or process.ending is Ending.FAILED


def is_lost(case: Case, process: RankProcess) -> bool:
    """Not heard any more, and missed: of a job whose steps go on, only the reports of a rank are lost."""
    if process.ending is not Ending.LOST or process.rank in frozen_ranks(case):
        return False
    return not (runs_on(case, process) and _steps_go_on(case, [process]))


def ended_containers(pod: KubeObject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those that ended otherwise than well. Of one that runs again, the life before is past."""
    for container in items(section(pod.body, "status"), "containerStatuses"):
        ended = section(container, "state", "terminated")
        if not ended and section(container, "state", "waiting"):
            ended = section(container, "lastState", "terminated")
        if ended and ended.get("exitCode") != 0:
            yield text(container, "name"), ended


def is_followed(case: Case, pod: KubeObject) -> bool:
    """Whether it has ended, and another one was made since: what it fell of is past."""
    ends = [time_ms(ended.get("finishedAt")) for _, ended in ended_containers(pod)]
    ended_ms = min((one for one in ends if one is not None), default=None)
    if ended_ms is None or text(section(pod.body, "status"), "phase") not in ("Failed", "Succeeded"):
        return False
    return any(one.created_ms > ended_ms for one in case.pods)


def node_gone(case: Case, pod: KubeObject) -> Fact | None:
    """That the node of a pod does not answer, where that is so. One whose kubelet says itself that it is not
    ready lives, and so does one whose ranks are heard."""
    node = case.node(node_of(pod))
    ready = next((one for one in conditions(node) if one.type == "Ready"), None) if node is not None else None
    if node is None or ready is None or ready.holds or ready.reason == _KUBELET_LIVES:
        return None
    since_ms = ready.since_ms if ready.since_ms is not None else case.file.from_ms
    if any(one.node == node.name and one.heard_ms > since_ms + _HEARD_MS for one in case.lives):
        return None
    said = ready.message or ready.reason or "not ready"
    return Fact(f"{node.name} is not ready: {said}", f"condition of Node {node.name}", ready.since_ms)


def node_silent(case: Case, node: str) -> Fact | None:
    """That nothing on a node answers and none of its ranks is heard, where that is so: Kubernetes takes forty
    seconds to notice."""
    here = [one for one in case.lives if node and one.node == node]
    if not here or any(one.ending is not Ending.LOST for one in here) or _steps_go_on(case, here):
        return None
    pods = {pod.name for pod in case.pods if node_of(pod) == node}
    own = [one for one in case.file.targets if _is_on(one, node, pods)]
    if len(own) < _ENOUGH_TARGETS or any(one.is_up is not False for one in own):
        return None
    said = f"nothing on {node} answers: {len(own)} scrapes fail and {len(here)} ranks are not heard"
    return Fact(said, "targets and heartbeats", max(one.heard_ms for one in here))


def gone_nodes(case: Case) -> frozenset[str]:
    """Nodes of its pods of which nothing is left."""
    found = {
        node_of(pod)
        for pod in case.pods
        if node_gone(case, pod) is not None or node_silent(case, node_of(pod)) is not None
    }
    for one in case.findings(FindingKind.CRASH, FindingKind.STALL):
        if one.finding.cause == "node-gone" and one.finding.subject.node:
            found.add(one.finding.subject.node)
    return frozenset(found)


def _is_on(target: CaseTarget, node: str, pods: Collection[str]) -> bool:
    """`pods` are the names of those on that node."""
    host = target.instance.rpartition(":")[0] or target.instance
    return node in (target.labels.get("node"), target.labels.get("Hostname"), host) or (
        target.labels.get("pod") in pods
    )


def runs_on(case: Case, process: RankProcess) -> bool:
    """Whether the container that a rank was in is still the one that runs."""
    pod = next((one for one in case.of_kind("", "Pod") if one.uid == process.pod_uid), None)
    for container in items(section(pod.body, "status"), "containerStatuses") if pod is not None else ():
        started_ms = time_ms(section(container, "state", "running").get("startedAt"))
        if started_ms is not None and process.container in (None, text(container, "name")):
            return started_ms <= process.heard_ms
    return False


def _steps_go_on(case: Case, without: Sequence[RankProcess]) -> bool:
    """Whether others have ended steps since these were heard."""
    if len({one.run for one in case.lives}) != 1:  # steps do not say which of several runs they are of
        return False
    ranks = {one.rank for one in without}
    heard_ms = max(one.heard_ms + int(2_000 * one.heartbeat_s) for one in without)
    return any(one.rank not in ranks and one.end_ms and one.end_ms[-1] > heard_ms for one in case.file.steps)


def hangs(case: Case) -> Iterator[Fact]:
    yield from _found(case, FindingKind.STALL, FindingKind.HANG)
    yield from _alerted(case, "hang")


def gpu_failed(case: Case) -> Iterator[Fact]:
    for interval in case.findings(FindingKind.GPU_FAULT):
        if interval.finding.severity is not Severity.INFO:
            yield facts_of(interval)[0]


def is_slower(case: Case) -> Iterator[Fact]:
    yield from _found(case, FindingKind.STRAGGLER, FindingKind.THROTTLING)
    yield from _alerted(case, "slower")
    if case.findings(FindingKind.CPU_FALLBACK):  # without its GPU it is slow, and that is told already
        return
    if (known := paces(case)) and known[0].whole_ratio >= SLOWER:
        pace = known[0]
        said = f"its steps take {pace.whole_ratio:.2f} times what they took (rank {pace.rank})"
        yield Fact(said, "steps of the run", pace.now.from_ms)


def learns_badly(case: Case) -> Iterator[Fact]:
    yield from _found(case, FindingKind.PLATEAU, FindingKind.DIVERGENCE)
    yield from _alerted(case, "not-learning")


def serves_slowly(case: Case) -> Iterator[Fact]:
    yield from _alerted(case, "service")
    for figure in ("inference-first-token", "inference-duration"):
        for one in case.series(figure):
            usual = before(one)
            if usual is not None and now(one) > _SLOWER_ANSWERS * usual:
                said = f"{figure.removeprefix('inference-')} takes {now(one):.3g} s, {usual:.3g} s before"
                yield Fact(said, "95th percentile of the server", one.t_ms[-1])


def _found(case: Case, *kinds: FindingKind) -> Iterator[Fact]:
    for interval in case.findings(*kinds)[:_FEW]:
        yield facts_of(interval)[0]


def _alerted(case: Case, symptom: str) -> Iterator[Fact]:
    for alert in case.file.alerts:
        name = alert.labels.get("alertname", "")
        if name in _ALERTS[symptom]:
            yield Fact(alert.annotations.get("summary", name), f"alert {name}", alert.active_ms)
