"""Whether what GPUs say arrives, from the exporter on the node over the scrape to the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.daemons import Daemon, DaemonState, is_daemon, on_node
from trilens.diagnose.evidence.gpu_access import node_name
from trilens.diagnose.monitors import example_label, nearest, selection, wants_exporter
from trilens.diagnose.scheduling.nodes import nodes_of
from trilens.diagnose.scheduling.waiting import node_of
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import is_accelerator, wants_accelerator
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseTarget
    from trilens.model.finding import FindingInterval

_MONITORING: Final = "monitoring.coreos.com"
_FINDINGS: Final = ("prof-stuck", "lost-labels", "frozen", "sentinel", "programs-silent")
_NOW_MS: Final = 5_000  # a series that has ended has no value at the moment of the case
_STALE_MS: Final = 120_000  # two scrapes at the slowest usual interval
_NODE_KNOWN_MS: Final = 60_000  # Kubernetes gives a node 40 s until it calls it not ready
_NODE_OR_EXPORTER: Final = 0.55  # which of the two is silent cannot be told yet
_TOLD_BY_EXPORTERS: Final = ("gpu-reported", "gpu-utilization", "gpu-power")
_EXPORTER_PORT: Final = ":9400"  # dcgm-exporter's own, whatever its job is called
_POD_LABELS: Final = ("pod", "exported_pod", "pod_name")


def expects_gpus(case: Case) -> bool:
    """Whether something should be heard: a pod with a GPU runs, or the node has some."""
    if case.file.subject.kind == "node":
        return any(
            is_accelerator(name) and amount
            for room in nodes_of(case)
            if room.name == case.file.subject.name
            for name, amount in room.capacity.items()
        )
    running = [pod for pod in case.pods if text(section(pod.body, "status"), "phase") == "Running"]
    return any(wants_accelerator(pod) and node_of(pod) for pod in running)


def telemetry_findings(case: Case) -> list[FindingInterval]:
    return [
        one
        for one in case.file.findings
        if one.finding.kind is FindingKind.SUSPECT_TELEMETRY and one.ended_ms is None
    ]


def _silent(case: Case) -> FindingInterval | None:
    """That a detector misses what GPUs of a node say; it takes a while to believe that they are back."""
    for one in telemetry_findings(case):
        if one.finding.cause == "gap" and not _heard_now(case, one.finding.subject.node):
            return one
    return None


def _heard_now(case: Case, node: str | None) -> bool:
    own = {seat.uuid for seat in case.file.gpus if seat.node == node}
    told = [one for one in case.series("gpu-reported") if one.labels.get("UUID") in own]
    return any(one.t_ms and case.now_ms - one.t_ms[-1] <= _NOW_MS for one in told)


def _last_heard_ms(case: Case, node: str | None = None) -> int | None:
    """Of any of its GPUs, or of those on one node."""
    there = {seat.uuid for seat in case.file.gpus if seat.node == node}
    series = (
        one
        for figure in _TOLD_BY_EXPORTERS
        for one in case.series(figure)
        if node is None or one.labels.get("Hostname") == node or one.labels.get("UUID") in there
    )
    return max((one.t_ms[-1] for one in series if one.t_ms), default=None)


def _nameless(case: Case) -> FindingInterval | None:
    """That what GPUs of a node say is heard, and does not name whose they are."""
    return next((one for one in telemetry_findings(case) if one.finding.cause == "lost-labels"), None)


def _node(case: Case) -> str:
    """The one that is silent, where it is known which."""
    silent = _silent(case)
    return (silent.finding.subject.node if silent is not None else None) or node_name(case)


@evidence("yes", "no", "stopped")
def gpus_heard(case: Case) -> Answer:
    node = _node(case)
    told = {"node": node or "its node"}
    subject = Subject(node=node or None)
    if (one := _silent(case)) is not None:
        fact = Fact(one.finding.text, f"detector {one.finding.code}", one.finding.onset_ms)
        return Answer(("stopped",), (fact,), 1.0, told, (), one.finding.subject, one.finding.onset_ms)
    latest = _last_heard_ms(case)
    if latest is None and (lost := _nameless(case)) is not None:
        fact = Fact(lost.finding.text, f"detector {lost.finding.code}", lost.finding.onset_ms)
        return Answer(("yes",), (fact,), names=told, subject=subject)
    if latest is None:
        if not expects_gpus(case):
            return Answer.unknown(Missing("whether it has GPUs", "ask for a workload whose pods run"))
        fact = Fact("no series of its GPUs in the time that was asked about", "the metrics")
        return Answer(("no",), (fact,), names=told, subject=subject)
    if case.now_ms - latest > _STALE_MS:
        fact = Fact(f"last heard {(case.now_ms - latest) // 1000} s ago", "the metrics of its GPUs", latest)
        return Answer(("stopped",), (fact,), names=told, subject=subject, since_ms=latest)
    return Answer(("yes",), (Fact("its GPUs are heard", "the metrics", latest),), names=told, subject=subject)


@evidence("running", "missing", "failing")
def exporter_on_node(case: Case) -> Answer:
    node = _node(case)
    found = on_node(case, Daemon.EXPORTER, node) if node else None
    if found is None or found.state is DaemonState.UNTOLD:
        remedy = 'allow "list" on pods in its namespace; where there is none, install dcgm-exporter'
        return Answer.unknown(Missing("the pods of dcgm-exporter", remedy))
    told = {"node": node, "reason": found.reason}
    told["repair"] = found.repair or f"See why its DaemonSet has no pod on {node}: kubectl get daemonsets -A"
    if found.pod is not None:
        told["exporter"] = f"{found.pod.namespace}/{found.pod.name}"
        told["exporter_log"] = f"kubectl logs -n {found.pod.namespace} {found.pod.name}"
    if found.state is DaemonState.MISSING and found.pod is None and (own := list(_targets(case))):
        # It is scraped, so there is one: not every exporter is a pod, or called as one expects.
        fact = Fact(f"no pod of it is known, and {own[0].job} {own[0].instance} is scraped", "targets")
        return Answer((UNKNOWN,), (fact,), names=told)
    if found.state is DaemonState.MISSING:
        fact = Fact(f"none runs on {node}: {found.reason}", "Pods and DaemonSets")
        # Where none is known anywhere, there may be one that is called otherwise.
        is_known = found.pod is not None or any(
            is_daemon(Daemon.EXPORTER, pod) for pod in case.of_kind("", "Pod")
        )
        return Answer(("missing",), (fact,), 1.0 if is_known else 0.8, told)
    fact = Fact(f"{told['exporter']} on {node}: {found.reason or 'runs'}", "status of the pod")
    return Answer(("running" if found.state is DaemonState.RUNNING else "failing",), (fact,), names=told)


@evidence("up", "down", "not-scraped")
def target_says(case: Case) -> Answer:
    """Of the exporter on that node, by whoever scrapes it."""
    if not case.file.targets:
        return Answer.unknown(
            Missing("who is scraped", "let Trilens scrape, or set source.url: docs/scraping.md")
        )
    own = list(_targets(case))
    if not own:
        listed = ", ".join(sorted({one.job for one in case.file.targets})[:6])
        fact = Fact(f"none of {len(case.file.targets)} targets is its exporter (jobs: {listed})", "targets")
        return Answer(("not-scraped",), (fact,))
    for target in own:
        if target.is_up is False:
            told = {"target": f"{target.job} {target.instance}", "error": target.error or "no answer"}
            fact = Fact(f"{told['target']}: {told['error']}", "targets", target.scraped_ms)
            if _may_be_the_node(case):
                live = Missing(
                    "whether its node still lives", "ask again in a minute: Kubernetes knows by then"
                )
                return Answer(("down",), (fact,), _NODE_OR_EXPORTER, told, (live,))
            return Answer(("down",), (fact,), names=told)
    return Answer(("up",), (Fact(f"{own[0].job} {own[0].instance} is up", "targets", own[0].scraped_ms),))


def _may_be_the_node(case: Case) -> bool:
    """It has been silent for less time than a dead node takes to be known as one, and nobody there was heard
    since."""
    node = _node(case)
    heard_ms = _last_heard_ms(case, node)
    if heard_ms is None or case.now_ms - heard_ms > _NODE_KNOWN_MS:
        return False
    return not any(one.node == node and one.heard_ms > heard_ms for one in case.lives)


@evidence("none", "label", "namespace", "service", "port", "selected")
def monitor_selected(case: Case) -> Answer:
    """Whether the ServiceMonitor of the exporter is one that the operator's Prometheus takes."""
    monitors = [
        one
        for kind in ("ServiceMonitor", "PodMonitor")
        for one in case.of_kind(_MONITORING, kind)
        if is_daemon(Daemon.EXPORTER, one) or wants_exporter(one)
    ]
    servers = case.of_kind(_MONITORING, "Prometheus")
    if not monitors:
        if not servers and not case.of_kind(_MONITORING, "ServiceMonitor"):
            if case.knows_all(_MONITORING, "ServiceMonitor"):
                what = "who should scrape it: the cluster has no ServiceMonitors and no Prometheus objects"
                remedy = "let Trilens do it: exporters: true for the cluster in kubernetes.clusters"
                return Answer.unknown(Missing(what, remedy))
            remedy = (
                f'allow "list" on servicemonitors and prometheuses of {_MONITORING}: trilens kubernetes rbac'
            )
            return Answer.unknown(Missing("the ServiceMonitors", remedy))
        label = example_label(servers)
        fact = Fact("no ServiceMonitor is about dcgm-exporter", "ServiceMonitors")
        return Answer(("none",), (fact,), names={"label": label})
    if not servers:
        return Answer.unknown(
            Missing("the Prometheus objects", f'allow "list" on prometheuses of {_MONITORING}')
        )
    found = nearest([selection(case, monitor, servers) for monitor in monitors])
    return Answer((found.value,), found.facts, names=found.told)


@evidence(*_FINDINGS, "none")
def telemetry_is_believed(case: Case) -> Answer:
    found = [one for one in telemetry_findings(case) if one.finding.cause in _FINDINGS]
    if not found:
        return Answer(("none",))
    first = found[0].finding
    facts = tuple(
        Fact(one.finding.text, f"detector {one.finding.code}", one.finding.onset_ms) for one in found
    )
    values = tuple(dict.fromkeys(one.finding.cause for one in found))
    told = {"said": first.text, "node": first.subject.node or node_name(case) or "its node"}
    return Answer(values, facts, first.confidence, told, (), first.subject, first.onset_ms)


@evidence("overwritten", "lost", "kept")
def labels_of_series(case: Case) -> Answer:
    """Whether the series of its GPUs name the pod that has them."""
    own = {pod.name for pod in case.pods}
    series = case.series("gpu-reported")
    if not series or not own:
        return Answer.unknown(
            Missing("the series of its GPUs as they are scraped", "ask for a workload that runs")
        )
    last = series[-1].t_ms[-1] if series[-1].t_ms else None
    # The scraper keeps its own `pod` and renames the one that was told: `exported_pod`.
    renamed = [
        one for one in series if one.labels.get("exported_pod") in own and one.labels.get("pod") not in own
    ]
    if renamed:
        text_ = (
            f'pod="{renamed[0].labels.get("pod", "")}", exported_pod="{renamed[0].labels["exported_pod"]}"'
        )
        monitor = next(
            (one for one in case.of_kind(_MONITORING, "ServiceMonitor") if wants_exporter(one)), None
        )
        name = f"{monitor.namespace}/{monitor.name}" if monitor is not None else "of dcgm-exporter"
        return Answer(("overwritten",), (Fact(text_, "labels of its series", last),), names={"monitor": name})
    bare = [one for one in series if not any(one.labels.get(label) for label in _POD_LABELS)]
    if bare:
        fact = Fact(f"{len(bare)} of {len(series)} series name no pod", "labels of its series", last)
        return Answer(("lost",), (fact,), 0.85, {"node": node_name(case) or "its node"})
    return Answer(("kept",), (Fact("they name its pods", "labels of its series", last),))


def _targets(case: Case) -> Iterator[CaseTarget]:
    node = _node(case)
    exporters = [
        pod for pod in case.of_kind("", "Pod") if is_daemon(Daemon.EXPORTER, pod) and node_of(pod) == node
    ]
    names = {pod.name for pod in exporters}
    addresses = {text(section(pod.body, "status"), "podIP") for pod in exporters} - {""}
    found = case.node(node) if node else None
    if found is not None:
        addresses |= {text(one, "address") for one in items(section(found.body, "status"), "addresses")}
    for target in case.file.targets:
        host = target.instance.rpartition(":")[0] or target.instance
        is_exporter = (
            "dcgm" in target.job
            or target.labels.get("pod") in names
            or target.instance.endswith(_EXPORTER_PORT)
        )
        is_here = node in (target.labels.get("node"), target.labels.get("Hostname")) or host in addresses
        if is_exporter and (is_here or host == node or target.labels.get("pod") in names):
            yield target
