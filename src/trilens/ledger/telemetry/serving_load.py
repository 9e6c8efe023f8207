"""Which workloads are inference servers, and what each of their pods had to do, minute by minute."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.ledger.telemetry.minutes import MINUTE_MS, added_up, as_last_said

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.ledger.source import ServingMinutes
    from trilens.model.ledger_facts import Facts
    from trilens.model.workload import PodKey, WorkloadKey

# Kinds that are never anything else. A Deployment or a LeaderWorkerSet is a server if it tells of requests.
_KINDS: Final = frozenset(
    {
        ("serving.kserve.io", "InferenceService"),
        ("serving.kserve.io", "LLMInferenceService"),
        ("ray.io", "RayService"),
        ("apps.nvidia.com", "NIMService"),
        ("nvidia.com", "DynamoGraphDeployment"),
        ("machinelearning.seldon.io", "SeldonDeployment"),
        ("mlops.seldon.io", "Model"),
        ("kubeai.org", "Model"),
    }
)

_Name = tuple[str, str, str]


class ServingLoad:
    """A replica over several pods is asked at one of them: the others work for it."""

    def __init__(self, facts: Facts, serving: ServingMinutes, base_ms: int, minutes: int) -> None:
        self._minutes = minutes
        self._shift = (serving.from_ms - base_ms) // MINUTE_MS
        self._serving = serving
        told = added_up(np.array([serving.running, serving.requests, serving.tokens]))
        self._loads = {name: told[row] for name, row in serving.pods.items() if not np.isnan(told[row]).all()}
        self._groups: dict[PodKey, int | None] = {}
        self._mates: defaultdict[tuple[WorkloadKey, int | None], list[_Name]] = defaultdict(list)
        self._servers: defaultdict[WorkloadKey, list[_Name]] = defaultdict(list)
        for one in facts.members if self._loads else ():
            member = one.membership
            name = member.pod[:3]
            self._groups[member.pod] = member.group
            if name in self._loads:
                self._mates[member.workload, member.group].append(name)
                self._servers[member.workload].append(name)

    def is_server(self, workload: WorkloadKey) -> bool:
        return (workload.group, workload.kind) in _KINDS or workload in self._servers

    def of(self, pod: PodKey, workload: WorkloadKey) -> NDArray[np.float64] | None:
        """More than 0 in minutes with requests, NaN where nobody tells; None where nobody ever does."""
        name = pod[:3]
        if name in self._loads:
            names = [name]
        else:
            group = self._groups.get(pod)
            names = self._mates.get((workload, group), []) or self._servers.get(workload, [])
        if not names:
            return None
        loads = [self._loads[one] for one in dict.fromkeys(names)]
        together = loads[0] if len(loads) == 1 else added_up(np.array(loads))
        load: NDArray[np.float64] = as_last_said(self._placed(together)[None, :])[0]
        return load

    def _placed(self, load: NDArray[np.float64]) -> NDArray[np.float64]:
        """In the columns of the GPUs' signals."""
        if self._shift == 0 and len(load) == self._minutes:
            return load
        placed = np.full(self._minutes, np.nan)
        column = np.arange(len(load)) + self._shift
        fits = (column >= 0) & (column < self._minutes)
        placed[column[fits]] = load[fits]
        return placed
