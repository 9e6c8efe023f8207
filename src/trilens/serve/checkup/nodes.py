"""Whether the GPU nodes are heard: GPUs, their counters, agents, clocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from trilens.alert.dcgm_counters import counters_line
from trilens.model.errors import ServerError
from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

# GPU nodes are known by kube-state-metrics' names, which Trilens exports too. The agent says Hostname.
_NODES_WITHOUT_AGENT: Final = (
    'count by (node) (kube_node_status_capacity{resource="nvidia_com_gpu"} > 0) unless on (node) '
    'label_replace(trilens_agent_build_info, "node", "$1", "Hostname", "(.+)")'
)

_OF_AGENT_PART: Final = {
    "kernel-log": (
        "Xids are not seen there",
        "run it as root, or with CAP_SYSLOG and /dev/kmsg; docs/agent.md has what it needs",
    ),
    "state": ("after a restart it counts Xids again that it counted before", "see agent.state_file there"),
    "gpu": ("nothing is read of its GPUs, nor of the processes on them", "see nvidia-smi there"),
    "pod-resources": (
        "which pod holds which GPU is told by other sources, if at all",
        "mount /var/lib/kubelet/pod-resources",
    ),
}
_UNKNOWN_PART: Final = ("what it tells is not whole", "its /healthz says why")

# What verdicts and the ledger rest on; the names of one line are of different versions of DCGM.
_COUNTERS_WANTED: Final = (
    (("DCGM_FI_PROF_SM_ACTIVE",), "how busy GPUs are: GPU_UTIL is 100 % for one small kernel"),
    (("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",), "whether the tensor cores work, which training is paid for"),
    (("DCGM_FI_PROF_DRAM_ACTIVE",), "whether memory is what a job waits for"),
    (("DCGM_FI_DEV_POWER_USAGE",), "energy, and hung jobs: busy at little power"),
    (("DCGM_FI_DEV_GPU_TEMP",), "heat"),
    (("DCGM_FI_DEV_SM_CLOCK",), "GPUs that are held down"),
    (
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
        "why they are held down",
    ),
    (("DCGM_FI_DEV_XID_ERRORS",), "Xids, where no agent runs"),
)
_CLOCK_OFF_S: Final = 5.0  # HTTP tells whole seconds, and an answer takes its time
_SKEW_S: Final = 1.0  # times of two nodes do not fit together from here on


def gpus_see(evidence: Evidence) -> str:
    lost = sum(gpu["count"] for gpu in evidence.missing_gpus)
    return f"{many(lost, 'GPU')} missing" if lost else "no GPU is missing"


def gpus(evidence: Evidence) -> Iterator[Finding]:
    by_state: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for gpu in evidence.missing_gpus:
        by_state[gpu["state"]][gpu.get("cluster", ""), gpu["node"]] += gpu["count"]
    for state, nodes in sorted(by_state.items()):
        where = few([f"{node} ({count})" for (_, node), count in sorted(nodes.items())])
        if state == "lost":
            means = "their node should have them and others of it report: they fell off, or were taken out"
            remedy = "trilens gpus --lost names them; look for Xids (trilens events), then drain the node"
            yield Finding("gpus", True, f"GPUs are lost on {where}", means, remedy)
        else:
            means = "none of these nodes' GPUs reports: nothing is known of them"
            why = _why_blind(evidence, *min(nodes))
            remedy = why or "run dcgm-exporter or trilens agent there, and scrape it"
            # Where nothing says that they should be heard, it may be meant so.
            yield Finding("gpus", bool(why), f"no GPU reports on {where}", means, remedy)


def counters(evidence: Evidence) -> Iterator[Finding]:
    """Says nothing where nothing of DCGM is there: then the GPUs are what is missing."""
    told = evidence.ask('count by (__name__) ({__name__=~"DCGM_FI_.+"})')
    present = {labels["__name__"] for labels in told}
    missing = [(names[0], what) for names, what in _COUNTERS_WANTED if present.isdisjoint(names)]
    if present and missing:
        what = f"counters of DCGM are not told: {', '.join(name for name, _ in missing)}"
        lines = "\n".join(counters_line(name) for name, _ in missing)
        remedy = f"add to the counters file of dcgm-exporter:\n{lines}"
        means = f"not known are: {'; '.join(means for _, means in missing)}"
        yield Finding("counters", False, what, means, remedy)


def agents_see(evidence: Evidence) -> str:
    known = evidence.readiness.get("agents", {}).get("known", 0)
    return many(known, "agent") if known else "no agent is asked"


def agents(evidence: Evidence) -> Iterator[Finding]:
    """Says nothing where no GPU node is known: unknown is not missing."""
    for complaint in evidence.readiness.get("agents", {}).get("complaints", []):
        yield Finding(
            "agents", True, str(complaint), "its events wait", "see that it runs and can be reached"
        )
    nodes = sorted(labels["node"] for labels in evidence.ask(_NODES_WITHOUT_AGENT))
    if nodes:
        what = f"no agent on {few(nodes)}, which have GPUs"
        means = "Xids are not counted there, and no process is known"
        yield Finding("agents", False, what, means, "run trilens agent on each of them, and scrape it")


def agent_parts(evidence: Evidence) -> Iterator[Finding]:
    """Agents that answer, and cannot read a part of their node."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for labels in evidence.ask("trilens_agent_problem > 0"):
        nodes[labels["part"]].append(labels["Hostname"])
    for part, where in sorted(nodes.items()):
        means, remedy = _OF_AGENT_PART.get(part, _UNKNOWN_PART)
        what = f"the agent cannot read its {part} on {few(sorted(where))}"
        yield Finding("agent_parts", True, what, means, remedy)


def clocks_see(evidence: Evidence) -> str:
    ahead = evidence.clock_ahead_s
    if ahead is None:
        return ""
    apart = f"are {abs(ahead):.0f} s apart" if abs(ahead) >= _CLOCK_OFF_S else "agree"
    return f"the server's and this machine's {apart}"


def clocks(evidence: Evidence) -> Iterator[Finding]:
    """By node_exporter. Pods whose times do not fit together are doubts about their workloads."""
    nodes = sorted(labels["node"] for labels in evidence.ask("trilens:node_clock_synchronized:bool == 0"))
    if nodes:
        means = "times that are told from there may be wrong, and do not fit those of other nodes"
        what = f"the clocks of {few(nodes)} are not synchronised"
        yield Finding("clocks", False, what, means, "see chrony or systemd-timesyncd there")


def server_clock(evidence: Evidence) -> Iterator[Finding]:
    ahead = evidence.clock_ahead_s
    if ahead is not None and abs(ahead) > _CLOCK_OFF_S:
        way = "ahead of" if ahead > 0 else "behind"
        what = f"the server's clock is {abs(ahead):.0f} s {way} this machine's"
        means = "one of them is wrong; where it is the server's, samples seem old or from the future"
        yield Finding("server_clock", True, what, means, "see chrony or systemd-timesyncd on both")


def told_clocks(evidence: Evidence) -> Iterator[Finding]:
    """Of nodes against the server, by node_exporter, and of a job's nodes against each other, by the SDK."""
    nodes = evidence.ask(f"abs(node_time_seconds - timestamp(node_time_seconds)) > {_SKEW_S}")
    if nodes:
        names = sorted(labels.get("node") or labels.get("instance", "") for labels in nodes)
        what = f"the clocks of {few(names)} are more than {_SKEW_S:.0f} s off the server's"
        means = "events and steps of these nodes stand at wrong times"
        yield Finding("told_clocks", False, what, means, "see chrony or systemd-timesyncd there")
    for labels in evidence.ask(f"trilens:training_clock_skew:seconds > {_SKEW_S}"):
        whose = labels.get("workload") or labels.get("job_name", "")
        what = f"the ranks of {whose} on {labels.get('node', 'a node')} have another clock than its others"
        means = "who came last to a barrier is told wrongly"
        yield Finding("told_clocks", False, what, means, "see chrony or systemd-timesyncd there")


def _why_blind(evidence: Evidence, cluster: str, node: str) -> str:
    """The cause, as `trilens why` tells it, such as a ServiceMonitor that nobody's selector takes."""
    try:
        verdicts = evidence.why(f"{cluster}/node/{node}" if cluster else f"node/{node}")
    except ServerError:
        return ""  # it was only asked to say more
    for one in verdicts:
        if one["can_tell"] and one["layer"] == "telemetry" and one["fix"]:
            return f"{node}: {one['text']}: {'; '.join(one['fix'])}"
    return ""
