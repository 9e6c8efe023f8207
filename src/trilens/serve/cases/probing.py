"""What a container itself sees of its GPUs: asked only when somebody wants it, and is allowed to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from trilens.collect.kubernetes.api import FORBIDDEN
from trilens.collect.kubernetes.rbac import Grant
from trilens.diagnose.case_file import Probe
from trilens.model.errors import KubeApiError
from trilens.model.verdict import Missing
from trilens.model.workload import PodKey
from trilens.resolve.accelerators import template_wants_accelerator
from trilens.resolve.reading import items, section, text
from trilens.serve.cases.about import Probed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.collect.kubernetes.asked import ObjectQuestions
    from trilens.model.kubernetes import KubeObject

COMMAND: Final = ("nvidia-smi", "-L")
_MOST: Final = 16  # containers: ranks of one job are alike
_WITHIN_S: Final = 15.0  # a driver that hangs lets nvidia-smi hang


async def probe(cluster: ObjectQuestions, pods: Sequence[KubeObject]) -> Probed:
    """Of the containers that ask for a GPU, of pods that run."""
    asked = [(pod, container) for pod in pods for container in _containers(pod)]
    answers = await asyncio.gather(*(_one(cluster, pod, name) for pod, name in asked[:_MOST]))
    probes = tuple(one for one in answers if isinstance(one, Probe))
    missing = tuple(dict.fromkeys(one for one in answers if isinstance(one, Missing)))
    if len(asked) > _MOST:
        what = f"what {len(asked) - _MOST} more containers see of their GPUs"
        missing = (*missing, Missing(what, "ask about one pod"))
    return Probed(probes, missing)


async def _one(cluster: ObjectQuestions, pod: KubeObject, container: str) -> Probe | Missing:
    try:
        ran = await cluster.run(pod.namespace, pod.name, container, COMMAND, within_s=_WITHIN_S)
    except KubeApiError as e:
        if e.status == FORBIDDEN:
            grant = Grant("create", "", "pods/exec", pod.namespace)
            what = f"what containers in {pod.namespace} see of their GPUs: it may not be asked"
            return Missing(what, f'{grant}, and "get" with it')
        what = f"what {container} of {pod.name} sees of its GPUs: {e.message}"
        return Missing(
            what, f"kubectl exec -n {pod.namespace} {pod.name} -c {container} -- {' '.join(COMMAND)}"
        )
    key = PodKey(pod.cluster, pod.namespace, pod.name, pod.uid)
    return Probe(key, container, COMMAND, ran.exit_code, ran.output, time.time_ns() // 1_000_000)


def _containers(pod: KubeObject) -> Iterable[str]:
    if text(section(pod.body, "status"), "phase") != "Running":
        return
    containers = list(items(section(pod.body, "spec"), "containers"))
    wanting = [one for one in containers if template_wants_accelerator({"containers": [one]})]
    for one in wanting or containers[:1]:  # a pod that asks for none is asked too: perhaps it should have
        yield text(one, "name")
