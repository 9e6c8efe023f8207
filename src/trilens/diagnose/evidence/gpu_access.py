"""Whether a pod has its GPU: what it asks for, what its node offers and gives."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.daemons import Daemon, DaemonState, on_node
from trilens.diagnose.scheduling.demand import requested
from trilens.diagnose.scheduling.nodes import nodes_of
from trilens.diagnose.scheduling.waiting import event_words, node_of, pod_key
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import is_accelerator, wants_accelerator
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

_NODE_UNTOLD: Final = Missing("its node", 'allow "list" on nodes: trilens kubernetes rbac')
PODS_UNTOLD: Final = Missing("its pods", 'allow "list" on pods: trilens kubernetes rbac')
_ALLOCATION: Final = re.compile(
    r"Allocate failed|unhealthy devices|no healthy devices|UnexpectedAdmissionError"
)
_RUNTIME: Final = re.compile(
    r"nvidia-container-cli|nvidia-container-runtime|could not select device driver|runtime handler"
    r"|libnvidia|CDI device",
    re.IGNORECASE,
)


@evidence("yes", "no", "of-a-node")
def gpu_in_limits(case: Case) -> Answer:
    """Where some pods ask for one and others do not, as a launcher and its workers, it is asked for."""
    if not case.pods:
        if case.file.subject.kind == "node":
            return Answer(("of-a-node",), names=_node_names(case), subject=Subject(node=node_name(case)))
        return Answer.unknown(PODS_UNTOLD)
    pod = chosen_pod(case)
    told = {"pod": f"{pod.namespace}/{pod.name}", "node": node_of(pod) or "its node", **_node_names(case)}
    subject = Subject(pod=pod_key(pod), node=node_of(pod) or None, cluster=pod.cluster)
    if any(wants_accelerator(one) for one in case.pods):
        asked = {name: amount for name, amount in requested(pod).items() if is_accelerator(name)}
        listed = ", ".join(f"{amount:f} {name}" for name, amount in asked.items()) or "a share, or a claim"
        return Answer(
            ("yes",), (Fact(f"it asks for {listed}", f"spec of Pod {pod.name}"),), 1.0, told, (), subject
        )
    containers = [text(one, "name") for one in items(section(pod.body, "spec"), "containers")]
    told |= {"container": containers[0] if containers else "main"}
    fact = Fact(f"none of its containers ({', '.join(containers)}) asks for a GPU", f"spec of Pod {pod.name}")
    # Some programs are meant for processors; one whose framework was built for CUDA hardly is.
    is_meant = any("cuda" in rank.versions for rank in case.file.ranks)
    return Answer(("no",), (fact,), 1.0 if is_meant else 0.75, told, subject=subject)


@evidence("running", "missing", "failing")
def device_plugin_on_node(case: Case) -> Answer:
    node = node_name(case)
    if not node:
        return Answer.unknown(Missing("the node of the pod", "ask when it has one"))
    found = on_node(case, Daemon.DEVICE_PLUGIN, node)
    told = {"node": node, "reason": found.reason, "repair": found.repair}
    if found.state in (DaemonState.UNTOLD, DaemonState.MISSING):
        # What a node offers, some plugin tells its kubelet: without one, nothing stays allocatable.
        room = next((one for one in nodes_of(case) if one.name == node), None)
        if room is not None and any(
            is_accelerator(name) and room.allocatable[name] for name in room.allocatable
        ):
            fact = Fact(f"{node} offers GPUs: some plugin has told of them", f"Node {node}")
            return Answer(("running",), (fact,), 0.95, told)
    if found.state is DaemonState.UNTOLD:
        missing = Missing(
            "the device plugin's pods", 'allow "list" on pods in its namespace (gpu-operator, kube-system)'
        )
        return Answer.unknown(missing)
    if found.state is DaemonState.RUNNING:
        assert found.pod is not None
        fact = Fact(f"{found.pod.namespace}/{found.pod.name} runs on {node}", "status of the pod")
        return Answer(("running",), (fact,), names=told)
    if found.state is DaemonState.FAILING:
        assert found.pod is not None
        told["plugin"] = f"{found.pod.namespace}/{found.pod.name}"
        told["plugin_log"] = f"kubectl logs -n {found.pod.namespace} {found.pod.name}"
        fact = Fact(f"{told['plugin']}: {found.reason}", "status of the pod")
        return Answer(("failing",), (fact,), names=told)
    told["repair"] = found.repair or f"See why its DaemonSet has no pod on {node}: kubectl get daemonsets -A"
    return Answer(
        ("missing",), (Fact(f"none runs on {node}: {found.reason}", "Pods and DaemonSets"),), names=told
    )


@evidence("shows", "none", "unhealthy")
def capacity_shows_gpu(case: Case) -> Answer:
    node = node_name(case)
    room = next((one for one in nodes_of(case) if one.name == node), None)
    if room is None:
        return Answer.unknown(_NODE_UNTOLD)
    gpus = {name: amount for name, amount in room.capacity.items() if is_accelerator(name)}
    told = {"node": node, "lost": "0"}
    source = f"status of Node {node}"
    if not any(gpus.values()):
        listed = ", ".join(f"{name}: {amount:f}" for name, amount in gpus.items()) or "no accelerator"
        return Answer(("none",), (Fact(f"capacity shows {listed}", source),), names=told)
    lost = sum((gpus[name] - room.allocatable.get(name, Decimal(0)) for name in gpus), Decimal(0))
    listed = ", ".join(f"{amount:f} {name}" for name, amount in gpus.items())
    fact = Fact(f"capacity {listed}; {lost:f} of them not healthy", source)
    if lost > 0:
        told["lost"] = f"{lost:f}"
        taken = room.taken or {}
        is_hit = any(taken.get(name, Decimal(0)) > room.allocatable.get(name, Decimal(0)) for name in gpus)
        # Where fewer are well than pods hold, one of them holds a sick one.
        return Answer(("unhealthy",), (fact,), 1.0 if is_hit else 0.6, told)
    return Answer(("shows",), (fact,), names=told)


@evidence("allocation", "runtime", "scheduling", "none")
def gpu_events(case: Case) -> Answer:
    if not case.pods:
        return Answer(("none",))
    for pod in case.pods:
        status = section(pod.body, "status")
        told = {"pod": f"{pod.namespace}/{pod.name}", "node": node_of(pod) or "its node"}
        states = (
            section(one, *path)
            for key in ("containerStatuses", "initContainerStatuses")
            for one in items(status, key)
            for path in (("state", "waiting"), ("lastState", "terminated"))
        )
        said = [text(status, "message"), *(text(state, "message") for state in states)]
        facts = [Fact(one, f"status of Pod {pod.name}") for one in said if one]
        words = event_words(case, pod)
        facts += [
            Fact(one.message, f"event {one.reason} of Pod {pod.name}", one.t_ms) for one in reversed(words)
        ]
        for fact in facts:
            for value, sign in (("runtime", _RUNTIME), ("allocation", _ALLOCATION)):
                if sign.search(fact.text):
                    return Answer((value,), (fact,), names={**told, "said": fact.text}, since_ms=fact.t_ms)
        if not node_of(pod) and any(one.reason == "FailedScheduling" for one in words):
            return Answer(("scheduling",), (facts[0],) if facts else ())
    return Answer(("none",))


def chosen_pod(case: Case) -> KubeObject:
    """The one that asks for a GPU, and has a node, where there is one."""
    pods = sorted(case.pods, key=lambda pod: pod.name)
    return max(pods, key=lambda pod: (wants_accelerator(pod), bool(node_of(pod))))


def node_name(case: Case) -> str:
    subject = case.file.subject
    if subject.kind == "node":
        return subject.name
    return node_of(chosen_pod(case)) if case.pods else ""


def _node_names(case: Case) -> dict[str, str]:
    node = node_name(case)
    return {"node": node} if node else {}
