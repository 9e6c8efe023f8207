"""D008 suspect telemetry: what GPUs and programs say of themselves is not to be believed now.

What it finds: profiling counters stuck at 0 under load, readings that freeze to the bit, values by which
DCGM says "not known" where it knew before, an exporter that is silent, a GPU whose pod's name has vanished
from its readings while the pod runs, an old Xid that DCGM's gauge still holds, programs that nobody hears
while their GPUs go on.
Why it costs: every rule and detector that rests on these is wrong, and says so to nobody.
Example: utilisation 100 % at 600 W, and SM activity 0 for two weeks.
What to do: restart the exporter, mostly; the finding says it, by cause.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.fates import SILENT_MS, Fate, Surroundings
from trilens.detect.implausible import blank, frozen, latched_xid, profiling_stuck
from trilens.detect.looking import Looking
from trilens.detect.reporting import Nodes, Reporting
from trilens.detect.scene import Figure, ToldBy
from trilens.detect.wording import job_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity, Subject
from trilens.model.life import Phase
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.detect.scene import Scene
    from trilens.model.workload import PodKey

CODE: Final = "D008"

GAP_MS: Final = 45_000  # an exporter that restarts is back by then
_UNHEARD_MS: Final = 30_000
_UNLABELLED_MS: Final = 30_000  # a pod that ends loses its label before it is seen to end
_MANY_NODES: Final = 10  # silent at once have one cause: the network, what scrapes them, or this server
_TOGETHER: Final = 3  # GPUs of one node with one trouble: that is the node's, and one finding


_WORDS: Final[Mapping[str, tuple[str, str, Severity]]] = {
    "prof-stuck": (
        "its profiling counters stay at 0 though it works",
        "Restart dcgm-exporter there; another profiler (Nsight, another exporter) may hold the counters.",
        Severity.WARNING,
    ),
    "frozen": (
        "its readings have not changed by a bit for minutes though it runs",
        "Restart dcgm-exporter (or nv-hostengine) there: it repeats what it read last.",
        Severity.WARNING,
    ),
    "sentinel": (
        "DCGM says that it does not know readings that it knew before",
        "Look at dcgm-exporter's log and `nvidia-smi -q` there; restart nv-hostengine.",
        Severity.INFO,
    ),
    "gap": (
        "nothing is said of its GPUs any more",
        "Look whether dcgm-exporter runs there and can be scraped: `trilens doctor`, /targets.",
        Severity.WARNING,
    ),
    "lost-labels": (
        "its readings no longer name the pod that has it, which still runs",
        "Restart dcgm-exporter there: it has lost the kubelet's pod-resources socket.",
        Severity.WARNING,
    ),
    "latched-xid": (
        "DCGM's gauge holds an Xid of which nothing new is known: it may be old",
        "Nothing, unless the kernel's log has it again; a reset of the GPU clears the gauge.",
        Severity.INFO,
    ),
    "programs-silent": (
        "its programs are not heard, though its GPUs go on",
        "Look at the network between the job's pods and Trilens, and at TRILENS_SERVER in the job.",
        Severity.WARNING,
    ),
}
_NOT_BELIEVED: Final = frozenset({"prof-stuck", "frozen", "sentinel", "gap"})  # whose figures are wrong


class _Lost(NamedTuple):
    pod: PodKey
    since_ms: int | None  # since when its name is not there


class SuspectTelemetry:
    code = CODE

    def __init__(self) -> None:
        self._nodes = Nodes()
        self._looking = Looking()
        self._labelled: dict[tuple[str, str], _Lost] = {}
        self._suspects: dict[int, tuple[Doubt, ...]] = {}
        self._at_once: set[str] = set()  # clusters of which many nodes fell silent together

    def suspects(self) -> Mapping[int, tuple[Doubt, ...]]:
        return self._suspects

    def look(self, scene: Scene) -> Iterator[Finding]:
        self._suspects = {}
        telemetry = scene.telemetry
        if len(telemetry.places):
            self._nodes.look(telemetry.places)
            reporting = Reporting(telemetry, scene.now_ms)
            yield from self._gaps(scene, reporting)
            wrong = {
                "prof-stuck": profiling_stuck(telemetry, reporting),
                "frozen": frozen(telemetry, reporting),
                "sentinel": blank(telemetry),
                "latched-xid": latched_xid(scene),
                "lost-labels": self._unlabelled(scene),
            }
            for cause, rows in wrong.items():
                yield from self._of_rows(cause, np.flatnonzero(rows & ~reporting.is_silent), scene, reporting)
        self._looking.look(scene.now_ms)
        if self._looking.is_settled:
            yield from _unheard(scene)

    def _of_rows(
        self, cause: str, rows: NDArray[np.intp], scene: Scene, reporting: Reporting
    ) -> Iterator[Finding]:
        by_node: defaultdict[int, list[int]] = defaultdict(list)
        for row in rows.tolist():
            by_node[int(self._nodes.of_row[row])].append(row)
            self._doubt(row, cause)
        for node, found in by_node.items():
            cluster, name = self._nodes.names[node]
            onset_ms = _onset_ms(cause, scene, found, reporting)
            if len(found) >= _TOGETHER:
                subject = Subject(cluster=cluster, node=name)
                yield _finding(cause, subject, f"{len(found)} GPUs of {name}", onset_ms, len(found))
                continue
            for row in found:
                place = scene.telemetry.places[row]
                subject = Subject(
                    workload=place.workload,
                    rank=place.rank,
                    pod=place.pod,
                    cluster=cluster,
                    node=name,
                    gpu=place.uuid,
                )
                yield _finding(cause, subject, f"GPU {place.number} of {name}", onset_ms, 1)

    def _doubt(self, row: int, cause: str) -> None:
        if cause in _NOT_BELIEVED:
            text, remedy, _ = _WORDS[cause]
            self._suspects[row] = (*self._suspects.get(row, ()), Doubt(f"telemetry-{cause}", text, remedy))

    def _gaps(self, scene: Scene, reporting: Reporting) -> Iterator[Finding]:
        """A node that is off, or was taken away, says nothing either: that is no gap."""
        silent = reporting.is_silent
        for row in np.flatnonzero(silent).tolist():
            self._doubt(row, "gap")
        if not silent.any():
            self._at_once = set()
            return
        nodes = self._nodes
        quiet, heard = nodes.count(silent), nodes.count(reporting.is_heard)
        known = silent | reporting.is_heard  # of a GPU that never said anything nobody knows when it did last
        last_ms = nodes.highest(reporting.last_ms, known)
        overdue = (scene.now_ms - last_ms) / np.maximum(GAP_MS, 3 * nodes.highest(reporting.every_ms, known))
        is_gone = (quiet > 0) & (heard == 0) & (overdue > 1)
        off = _off(scene)
        gone: defaultdict[str, list[int]] = defaultdict(list)
        late: Counter[str] = Counter()
        for node in np.flatnonzero((quiet + heard > 0) & (overdue > 0.5)).tolist():
            cluster, name = nodes.names[node]
            if not off(cluster, name):
                late[cluster] += 1
                if is_gone[node]:
                    gone[cluster].append(node)
        # Until all are back: else the last ones of them would be told one by one.
        self._at_once = {one for one in gone if late[one] >= _MANY_NODES or one in self._at_once}
        for cluster, found in gone.items():
            if cluster in self._at_once:
                total = sum(one == cluster for one, _ in nodes.names)
                whose = f"{len(found)} of {total} nodes of {cluster or 'no cluster'}"
                since_ms = int(np.median(last_ms[found]))
                yield self._gap(scene, Subject(cluster=cluster), whose, since_ms, int(quiet[found].sum()))
                continue
            for node in found:
                name = nodes.names[node][1]
                subject = Subject(cluster=cluster, node=name)
                yield self._gap(scene, subject, name, int(last_ms[node]), int(quiet[node]))

    def _gap(self, scene: Scene, subject: Subject, who: str, since_ms: int, gpus: int) -> Finding:
        return _finding("gap", subject, who, since_ms, gpus)

    def _unlabelled(self, scene: Scene) -> NDArray[np.bool_]:
        places = scene.telemetry.places
        lost = np.zeros(len(places), bool)
        running: set[PodKey] | None = None
        known: dict[tuple[str, str], _Lost] = {}
        for row, place in enumerate(places):
            if place.is_labelled is None:
                continue
            key = (place.uuid, place.instance)
            if place.is_labelled and place.pod is not None:
                known[key] = _Lost(place.pod, None)
                continue
            before = self._labelled.get(key)
            if before is None:
                continue
            if running is None:
                running = {pod.pod for job in scene.jobs for pod in job.pods if pod.state == "Running"}
            if before.pod not in running or (place.pod is not None and place.pod != before.pod):
                continue
            since_ms = before.since_ms if before.since_ms is not None else scene.now_ms
            known[key] = before._replace(since_ms=since_ms)
            lost[row] = scene.now_ms - since_ms >= _UNLABELLED_MS
        self._labelled = known
        return lost


def _off(scene: Scene) -> Callable[[str, str], bool]:
    lost = {(node.cluster, node.node) for node in scene.nodes if node.is_ready is False}
    watched = {(node.cluster, node.node) for node in scene.nodes}
    clusters = {node.cluster for node in scene.nodes}
    return lambda cluster, name: (
        (cluster, name) in lost or (cluster in clusters and (cluster, name) not in watched)
    )


def _unheard(scene: Scene) -> Iterator[Finding]:
    around: Surroundings | None = None
    for job in scene.jobs:
        if not job.ranks or job.phase not in (None, Phase.RUNNING):
            continue
        heard_ms = max(rank.heard_ms for rank in job.ranks)
        is_scraped = job.ranks[0].told_by is ToldBy.METRICS
        if scene.now_ms - heard_ms <= (SILENT_MS if is_scraped else _UNHEARD_MS):
            continue
        around = around or Surroundings(scene)
        fates = [around.fate(rank, job) for rank in job.ranks]
        if fates.count(Fate.UNHEARD) * 2 > len(fates):
            subject = Subject(
                workload=job.workload,
                team=job.team,
                run=job.run.run if job.run is not None else None,
                job_name=job.name or None,
            )
            yield _finding("programs-silent", subject, job_name(job), heard_ms, len(fates))


def _onset_ms(cause: str, scene: Scene, rows: Sequence[int], reporting: Reporting) -> int:
    """As far back as it can be seen."""
    times = scene.telemetry.times_ms
    figures = {
        "prof-stuck": (Figure.SM, Figure.TENSOR),
        "frozen": (Figure.POWER,),
        "latched-xid": (Figure.XID,),
    }
    first = len(times) - 1
    for figure in figures.get(cause, ()):
        values = scene.telemetry.figures.get(figure)
        if values is None:
            continue
        for row in rows:
            told = np.flatnonzero(~np.isnan(values[row]))
            other = told[values[row][told] != values[row][told[-1]]] if len(told) else told
            first = min(first, int(other[-1]) + 1 if len(other) else 0)
        break
    return int(times[min(first, len(times) - 1)])


def _finding(cause: str, subject: Subject, whose: str, onset_ms: int, count: int) -> Finding:
    text, action, severity = _WORDS[cause]
    return Finding(
        CODE,
        FindingKind.SUSPECT_TELEMETRY,
        subject,
        severity,
        cause,
        onset_ms,
        f"{whose}: {text}",
        action,
        0.9,
        (Evidence(_QUERIES[cause][0], _QUERIES[cause][1]),),
        figures={"count": count},
    )


_QUERIES: Final[Mapping[str, tuple[str, str | None]]] = {
    "prof-stuck": ("SM and tensor activity against utilisation", "trilens:gpu_profiling_stuck:bool == 1"),
    "frozen": ("power, which always moves under load", "changes(DCGM_FI_DEV_POWER_USAGE[5m]) == 0"),
    "sentinel": ("values near 2^31, 2^47 or 2^63 mean that DCGM does not know", None),
    "gap": ("when its GPUs were last heard", "up == 0"),
    "lost-labels": ("which pod the readings name", "trilens:gpu_reported:info"),
    "latched-xid": ("the gauge holds the last code for ever", "DCGM_FI_DEV_XID_ERRORS > 0"),
    "programs-silent": ("which processes are heard", "trilens_run_process_up == 0"),
}
