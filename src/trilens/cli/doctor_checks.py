"""What `trilens doctor` looks at: one small function a check, over what the server says of itself."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.cli.client import Client

    Check = Callable[["Evidence"], Iterator["Finding"]]

_EXAMPLES: Final = 3

# GPU nodes are known by kube-state-metrics' names, which Trilens exports too. The agent says Hostname.
_NODES_WITHOUT_AGENT: Final = (
    'count by (node) (kube_node_status_capacity{resource="nvidia_com_gpu"} > 0) unless on (node) '
    'label_replace(trilens_agent_build_info, "node", "$1", "Hostname", "(.+)")'
)

# The exporters that tell of one and the same pod: each pod has one uid.
_DOUBLED_STATE_METRICS: Final = (
    "count by (cluster, job, instance) (kube_pod_info and on (uid) count by (uid) (kube_pod_info) > 1)"
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

_OF_DOUBT: Final = {
    "owner-gone": (
        "the last owner that is known stands for the workload",
        "delete the pods, or leave them be",
    ),
    "owner-unreadable": ("what is above may be the real workload", ""),
    "owner-unread": (
        "what is above may be the real workload",
        "take the kind out of kubernetes.clusters.*.leave_out",
    ),
    "from-labels": ("labels are a fallback, and anybody may set them", "let the owner references be read"),
    "uid-unknown": ("two of one name, one after the other, look like one", "let the workload's kind be read"),
    "owner-cycle": ("the oldest of them stands for the workload", ""),
    "labels-contradict-owners": ("the owners are believed", "correct the labels"),
    "unknown-operator": ("each object of that kind is taken for one job", "tell the authors of Trilens"),
    "unexpected-version": ("role and rank may be wrong", "update Trilens"),
    "clock-skew": ("its times were moved to fit the others", ""),
}
_UNKNOWN_DOUBT: Final = ("what is said of these workloads may be wrong", "see docs/workloads.md")


class Finding(NamedTuple):
    check: str
    is_problem: bool  # or only worth knowing
    what: str
    means: str
    remedy: str


class Evidence:
    """The server's own answers, each asked for once, when a check first wants it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @cached_property
    def readiness(self) -> dict[str, Any]:
        return self._client.probe("/readyz")

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/v1/targets", {"state": "active"})["data"][
            "activeTargets"
        ]
        return found

    @cached_property
    def workloads(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/workloads")["data"]
        return found

    @cached_property
    def missing_gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/gpus", {"lost": "true"})["data"]
        return found

    @cached_property
    def rules(self) -> list[dict[str, Any]]:
        groups = self._client.get("/api/v1/rules", {"exclude_alerts": "true"})["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    @cached_property
    def trackers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/trackers")["data"]
        return found

    @cached_property
    def receivers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/receivers")["data"]
        return found

    @cached_property
    def is_reloaded(self) -> bool:
        """Whether the settings were taken over when that was last asked for."""
        return bool(self._client.get("/api/v1/status/runtimeinfo")["data"]["reloadConfigSuccess"])

    @property
    def clusters(self) -> dict[str, Any]:
        found: dict[str, Any] = self.readiness.get("kubernetes", {}).get("clusters", {})
        return found

    def ask(self, promql: str) -> list[dict[str, str]]:
        """The labels of the series that a query finds."""
        answer = self._client.post("/api/v1/query", form={"query": promql})
        return [series["metric"] for series in answer["data"]["result"]]


def storage(evidence: Evidence) -> Iterator[Finding]:
    store = evidence.readiness.get("store", {})
    if reason := store.get("read_only_reason"):
        yield Finding(
            "storage", True, f"writes are refused: {reason}", "new samples are lost", "free space on its disk"
        )
    for damage in store.get("damage", []):
        yield Finding("storage", True, str(damage), "those samples are not shown", "restore it from a backup")


def ledger(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.readiness.get("ledger", {}).get("troubles", []):
        remedy = "it is tried again by itself; see the server's log"
        yield Finding("ledger", True, trouble, "what was spent is not known up to now", remedy)


def source(evidence: Evidence) -> Iterator[Finding]:
    told = evidence.readiness.get("source")
    if told and not told["reachable"]:
        what = f"{told['url']} does not answer since {told['since']}: {told['error']}"
        yield Finding("source", True, what, "no query is answered", "see source.url and that server")


def permissions(evidence: Evidence) -> Iterator[Finding]:
    for name, health in evidence.clusters.items():
        for grant in health["to_grant"]:
            where = f"Role in namespace {grant['namespace']}" if grant["namespace"] else "ClusterRole"
            yield Finding(
                "permissions",
                True,
                f"{name}: not allowed to {grant['rule']['verbs'][0]} {grant['rule']['resources'][0]}",
                "these objects are not seen; workloads that they own are told by labels, with a doubt",
                f"add to its {where}: {json.dumps(grant['rule'])} (trilens kubernetes rbac prints all)",
            )


def clusters(evidence: Evidence) -> Iterator[Finding]:
    for name, health in evidence.clusters.items():
        old = "what is shown of it may be old"
        if health["trouble"] is not None:
            remedy = "see that its kubeconfig is right and its API server can be reached from here"
            yield Finding("clusters", True, f"{name}: {health['trouble']}", old, remedy)
        for unfollowed in health["not_followed"]:
            if unfollowed["reason"] != health["trouble"]:
                what = f"{name}: cannot follow {_few(unfollowed['kinds'])}: {unfollowed['reason']}"
                yield Finding("clusters", True, what, old, "it is tried again by itself; see the API server")
        if not health["synced"] and health["trouble"] is None and not health["not_followed"]:
            what = f"{name}: not read through yet"
            yield Finding("clusters", False, what, "workloads may be missing", "wait a moment")


def doubts(evidence: Evidence) -> Iterator[Finding]:
    about: dict[tuple[str, str], list[str]] = defaultdict(list)
    texts: dict[tuple[str, str], str] = {}
    for workload in evidence.workloads:
        for doubt in workload["doubts"]:
            key = (doubt["code"], doubt["remedy"] or "")
            about[key].append(f"{workload['namespace']}/{workload['name']}")
            texts.setdefault(key, doubt["text"])
    for (code, remedy), names in sorted(about.items()):
        means, otherwise = _OF_DOUBT.get(code, _UNKNOWN_DOUBT)
        what = f"{code}: {_few(names)}: {texts[code, remedy]}"
        yield Finding("workloads", False, what, means, remedy or otherwise)


def scrapes(evidence: Evidence) -> Iterator[Finding]:
    total = Counter(target["scrapePool"] for target in evidence.targets)
    down: dict[tuple[str, str], list[str]] = defaultdict(list)
    for target in evidence.targets:
        if target["health"] == "down":
            down[target["scrapePool"], _without_address(target)].append(target["scrapeUrl"])
    for (pool, error), urls in sorted(down.items()):
        what = f"{pool}: {len(urls)} of {total[pool]} targets: {error} ({_few(urls)})"
        remedy = "see that they run and can be reached from here, or change the scrape configuration"
        yield Finding("scrapes", True, what, "their samples are missing", remedy)


def discovery(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.readiness.get("discovery", []):
        remedy = "grant it, or see the API server: trilens kubernetes rbac --add KIND prints the role"
        yield Finding("discovery", True, trouble, "targets are missing, or as they were", remedy)


def monitors(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.readiness.get("kubernetes", {}).get("unusable_monitors", []):
        yield Finding(
            "monitors",
            True,
            f"{one['cluster']}: {one['monitor']}: {one['reason']}",
            "what it asks for is not scraped",
            "change it, or grant what is missing: trilens kubernetes rbac --secret NAMESPACE/NAME prints it",
        )


def rules(evidence: Evidence) -> Iterator[Finding]:
    for unread in evidence.readiness.get("rules", {}).get("unread", []):
        means = "these rules are not evaluated; all others are"
        yield Finding(
            "rules", True, f"rules were left out: {unread}", means, "correct them and restart or reload"
        )
    by_error: dict[str, list[str]] = defaultdict(list)
    for rule in evidence.rules:
        if rule["health"] == "err":
            by_error[rule.get("lastError", "")].append(rule["name"])
    for error, names in sorted(by_error.items()):
        means = "what they record is missing until they succeed"
        remedy = "trilens rules list --failing shows them; correct them, or what they read"
        yield Finding("rules", True, f"rules fail: {_few(names)}: {error}", means, remedy)
    if blind := [rule["name"] for rule in evidence.rules if "blind" in rule]:
        means = "they can find nothing: what they look at is nowhere"
        remedy = "trilens rules list --blind says what each lacks, and what to do"
        yield Finding("rules", False, f"alerting rules are blind: {_few(blind)}", means, remedy)


def reload(evidence: Evidence) -> Iterator[Finding]:
    """Asked for by a signal, it has nobody to tell that it failed."""
    if not evidence.is_reloaded:
        remedy = "trilens config check FILE says what is wrong; then reload again"
        yield Finding("reload", True, "the last reload failed", "the old settings are in force", remedy)


def gpus(evidence: Evidence) -> Iterator[Finding]:
    by_state: dict[str, Counter[str]] = defaultdict(Counter)
    for gpu in evidence.missing_gpus:
        by_state[gpu["state"]][gpu["node"]] += gpu["count"]
    for state, nodes in sorted(by_state.items()):
        where = _few([f"{node} ({count})" for node, count in sorted(nodes.items())])
        if state == "lost":
            means = "their node should have them and others of it report: they fell off, or were taken out"
            remedy = "trilens gpus --lost names them; look for Xids (trilens events), then drain the node"
            yield Finding("gpus", True, f"GPUs are lost on {where}", means, remedy)
        else:
            means = "none of these nodes' GPUs reports: nothing is known of them"
            remedy = "run dcgm-exporter or trilens agent there, and scrape it"
            yield Finding("gpus", False, f"no GPU reports on {where}", means, remedy)


def agents(evidence: Evidence) -> Iterator[Finding]:
    """Says nothing where no GPU node is known: unknown is not missing."""
    for complaint in evidence.readiness.get("agents", {}).get("complaints", []):
        yield Finding(
            "agents", True, str(complaint), "its events wait", "see that it runs and can be reached"
        )
    nodes = sorted(labels["node"] for labels in evidence.ask(_NODES_WITHOUT_AGENT))
    if nodes:
        what = f"no agent on {_few(nodes)}, which have GPUs"
        means = "Xids are not counted there, and no process is known"
        yield Finding("agents", False, what, means, "run trilens agent on each of them, and scrape it")


def agent_parts(evidence: Evidence) -> Iterator[Finding]:
    """Agents that answer, and cannot read a part of their node."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for labels in evidence.ask("trilens_agent_problem > 0"):
        nodes[labels["part"]].append(labels["Hostname"])
    for part, where in sorted(nodes.items()):
        means, remedy = _OF_AGENT_PART.get(part, _UNKNOWN_PART)
        what = f"the agent cannot read its {part} on {_few(sorted(where))}"
        yield Finding("agent_parts", True, what, means, remedy)


def state_metrics(evidence: Evidence) -> Iterator[Finding]:
    """Also those that Trilens makes itself, which have no job."""
    told_by = sorted(
        f"job {labels['job']} at {labels.get('instance', '')}" if "job" in labels else "Trilens itself"
        for labels in evidence.ask(_DOUBLED_STATE_METRICS)
    )
    if len(told_by) > 1:
        what = f"the same pods are told of twice as kube_*: by {_few(told_by)}"
        means = "sums count them twice, and joins fail"
        remedy = "scrape one kube-state-metrics of a cluster, once; or set kubernetes.state_metrics: off"
        yield Finding("state_metrics", True, what, means, remedy)


def clocks(evidence: Evidence) -> Iterator[Finding]:
    """By node_exporter. Pods whose times do not fit together are doubts about their workloads."""
    nodes = sorted(labels["node"] for labels in evidence.ask("trilens:node_clock_synchronized:bool == 0"))
    if nodes:
        means = "times that are told from there may be wrong, and do not fit those of other nodes"
        what = f"the clocks of {_few(nodes)} are not synchronised"
        yield Finding("clocks", False, what, means, "see chrony or systemd-timesyncd there")


def trackers(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.trackers:
        place = f"{one['system']} {one['where']}"
        if one["trouble"]:
            remedy = f"see the settings of {one['system']}, and docs/trackers.md"
            yield Finding("trackers", True, f"{place}: {one['trouble']}", "its runs are not read", remedy)
        if one["refused"]:  # the last time: the next may have gone well
            means = "GPU-hours and utilisation were not taken there"
            yield Finding("trackers", False, f"{place}: {one['refused']}", means, "see who may write there")


def receivers(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.receivers:
        place = f"{one['receiver']} ({one['kind']}, {one['where']})"
        remedy = f"see its settings and docs/delivery.md, then: trilens receivers test {one['receiver']}"
        if one["state"] == "failing":
            means = f"nobody is told by it; messages that wait: {one['waiting']}, refused: {one['refused']}"
            yield Finding("receivers", True, f"{place}: {one['last_error']}", means, remedy)
        elif one["refused"]:
            means = f"{one['refused']} messages since the start were not taken, the last one at that time"
            yield Finding("receivers", False, f"{place}: {one['last_error']}", means, remedy)
        if one["dropped"]:
            means = "there was no room for them: see alerting.max_waiting"
            yield Finding(
                "receivers", True, f"{place}: {one['dropped']} messages were dropped", means, remedy
            )


def collection(evidence: Evidence) -> Iterator[Finding]:
    if "source" not in evidence.readiness and not evidence.clusters and not evidence.targets:
        what = "nothing is scraped, and no cluster is watched"
        remedy = "name clusters in kubernetes.clusters and jobs in scrape.scrape_configs"
        yield Finding("collection", False, what, "only what is sent here is known", remedy)


CHECKS: Final[tuple[Check, ...]] = (
    storage,
    ledger,
    source,
    permissions,
    clusters,
    scrapes,
    discovery,
    monitors,
    rules,
    reload,
    gpus,
    agents,
    agent_parts,
    state_metrics,
    clocks,
    doubts,
    trackers,
    receivers,
    collection,
)


def examine(client: Client) -> list[Finding]:
    """What all checks find. One that cannot be made is a finding itself, and the others are made."""
    evidence = Evidence(client)
    _ = evidence.readiness  # a server that does not answer at all is an error, not a finding
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found += check(evidence)
        except ServerError as e:
            found.append(
                Finding(check.__name__, True, f"cannot be checked: {e.message}", "nobody knows", e.hint or "")
            )
    return found


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_EXAMPLES])
    return f"{shown} and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else shown


def _without_address(target: dict[str, Any]) -> str:
    """Its error, so that targets which fail alike are told together."""
    error = str(target["lastError"]).replace(target["scrapeUrl"], "").strip(": ")
    return error.replace(target["labels"].get("instance", "\0"), "it")
