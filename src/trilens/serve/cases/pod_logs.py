"""What the containers of pods wrote, asked of the API server: where no agent tells."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.kubernetes.api import FORBIDDEN, NOT_FOUND
from trilens.collect.kubernetes.asked import LATE
from trilens.collect.kubernetes.pod_log import LogEnd
from trilens.collect.kubernetes.rbac import Grant
from trilens.diagnose.case_file import LogKind, LogText
from trilens.model.errors import KubeApiError
from trilens.model.verdict import Missing
from trilens.model.workload import PodKey
from trilens.resolve.reading import items, section, text, whole
from trilens.serve.cases.about import Written
from trilens.serve.cases.wanted import node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.collect.kubernetes.asked import ObjectQuestions
    from trilens.model.kubernetes import KubeObject

_AT_ONCE: Final = 16
_MOST: Final = 1_024  # runs of containers
_ANSWER_S: Final = 5.0  # the API server itself asks the node's kubelet, which may be gone
_NOTHING_WRITTEN: Final = 400  # it waits to start, or its run before this one is no longer kept


class _Run(NamedTuple):
    """One run of a container, of the last two."""

    pod: KubeObject
    container: str
    number: int
    is_previous: bool

    @property
    def name(self) -> str:
        return f"{self.container} (run {self.number})" if self.is_previous else self.container


async def ask_logs(
    cluster: ObjectQuestions, pods: Iterable[KubeObject], ranks: Mapping[PodKey, int], until: float
) -> Written:
    """`ranks` of the pods that are one rank."""
    there = {_key(pod): pod for pod in pods}
    runs = [run for key in sorted(there) for run in _runs(there[key])]
    gate = asyncio.Semaphore(_AT_ONCE)
    trouble: dict[str, Missing] = {}  # by the namespace or node for which nothing more is asked
    unread = {_key(run.pod) for run in runs[_MOST:]}

    async def end_of(run: _Run) -> LogEnd | None:
        pod = run.pod
        in_namespace, on_node = f"in {pod.namespace}", f"on {node_of(pod)}"
        async with gate:
            if in_namespace in trouble or on_node in trouble:
                return None
            try:
                async with asyncio.timeout_at(until), asyncio.timeout(_ANSWER_S):
                    return await cluster.log(pod.namespace, pod.name, run.container, previous=run.is_previous)
            except TimeoutError:
                trouble[on_node] = _untold(on_node, LATE)
            except KubeApiError as e:
                if e.status == _NOTHING_WRITTEN:
                    return LogEnd((), is_cut=False)
                if e.status == FORBIDDEN:
                    grant = Grant("get", "", "pods/log", pod.namespace)
                    remedy = f"{grant}; `trilens kubernetes rbac --why` prints the role"
                    trouble[in_namespace] = _untold(in_namespace, "it may not be read", remedy)
                elif e.status != NOT_FOUND:
                    trouble[on_node] = _untold(on_node, e.message)
        return None

    async def read(run: _Run) -> LogText | None:
        key, end = _key(run.pod), await end_of(run)
        if end is None:
            unread.add(key)
        if not end or not end.lines:
            return None
        node, lines = node_of(run.pod), tuple(end.lines)
        return LogText(LogKind.CONTAINER, run.name, lines, node, key, ranks.get(key), is_cut=end.is_cut)

    found = await asyncio.gather(*map(read, runs[:_MOST]))
    missing = [trouble[where] for where in sorted(trouble)]
    if len(runs) > _MOST:
        missing.append(Missing(f"what {len(runs) - _MOST} more containers wrote", "ask about one pod"))
    logs = tuple(log for log in found if log is not None)
    return Written(logs, tuple(missing), frozenset(there.keys() - unread))


def _key(pod: KubeObject) -> PodKey:
    return PodKey(pod.cluster, pod.namespace, pod.name, pod.uid)


def _untold(where: str, why: str, remedy: str = "trilens doctor looks why") -> Missing:
    return Missing(f"what containers {where} wrote, from the API server: {why}", remedy)


def _runs(pod: KubeObject) -> Iterable[_Run]:
    """The run before this one first: what ended it is often why there is another. Of containers that prepare
    a pod, those that have not done so."""
    status = section(pod.body, "status")
    for listed in ("initContainerStatuses", "containerStatuses"):
        for one in items(status, listed):
            state, before = section(one, "state"), section(one, "lastState", "terminated")
            if listed == "initContainerStatuses" and section(state, "terminated").get("exitCode") == 0:
                continue
            name, number = text(one, "name"), whole(one.get("restartCount")) or 0
            has_begun = "running" in state or "terminated" in state
            if has_begun and before:
                yield _Run(pod, name, number - 1, is_previous=True)
            if has_begun or before:  # of one that waits to begin again, its last run is answered
                yield _Run(pod, name, number, is_previous=False)
