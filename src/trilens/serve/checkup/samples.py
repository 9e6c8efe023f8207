"""Whether samples come in, are kept and are answered from: the store, the scrapes, the settings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

_LOOKED_BACK_S: Final = 300.0
_BYTES_A_SERIES: Final = 750  # three chunks of the window, and a little
# As the alert TrilensDiskSlow, which waits for ten minutes more.
_SLOW_DISKS: Final = 'trilens:disk_sync:seconds > scalar(trilens:threshold{of="own_disk_sync_seconds"})'


def store_sees(evidence: Evidence) -> str:
    if told := evidence.readiness.get("source"):
        return f"samples are asked of {told['url']}"
    series, on_disk = evidence.own("trilens_store_series"), evidence.own("trilens_store_disk_bytes")
    if series is None or on_disk is None:
        return ""
    return f"{many(series, 'series', 'series')}, {on_disk / 1e9:,.1f} GB on disk"


def storage(evidence: Evidence) -> Iterator[Finding]:
    store = evidence.readiness.get("store", {})
    if reason := store.get("read_only_reason"):
        # A server that is ready answers from what it has: it lacks nothing but space.
        is_full = evidence.readiness.get("ready", True)
        remedy = "free space on its disk" if is_full else "see its disk, or the server of storage.url"
        yield Finding("storage", True, f"writes are refused: {reason}", "new samples are lost", remedy)
    if company := store.get("company"):
        means = "rules are evaluated, hours booked and people told twice, and records may be written over"
        remedy = "stop one, name another database in storage.url, or set replicas.lease for all"
        yield Finding("storage", True, company, means, remedy)
    for damage in store.get("damage", []):
        yield Finding("storage", True, str(damage), "those samples are not shown", "restore it from a backup")


def slow_disk(evidence: Evidence) -> Iterator[Finding]:
    if _is_source_away(evidence):
        return
    for labels, seconds in evidence.values(_SLOW_DISKS):
        whose = labels.get("host") or f"Trilens {labels.get('instance', '')}".strip()
        took = f"{1000 * seconds:,.0f} ms to keep something, in the mean of ten minutes"
        means = "whoever writes waits for it, several times for each write"
        remedy = "a local solid disk takes a millisecond or two: see what else is busy on it, and its limits"
        yield Finding("slow_disk", False, f"the disk of {whose} takes {took}", means, remedy)


def recent_window(evidence: Evidence) -> Iterator[Finding]:
    reach_s, series = evidence.own("trilens_store_recent_reach_seconds"), evidence.own("trilens_store_series")
    if reach_s is None or series is None or "source" in evidence.readiness or reach_s >= _LOOKED_BACK_S:
        return
    what = f"the recent window reaches back {reach_s:,.0f} s, of {many(series, 'series', 'series')}"
    means = "queries look back five minutes: rules and pages wait for the disk"
    enough = math.ceil(series * _BYTES_A_SERIES / 2**20)
    yield Finding("recent_window", False, what, means, f"set storage.recent_memory to {enough}MiB or more")


def _is_source_away(evidence: Evidence) -> bool:
    """It is said once; whoever asks it about something else says nothing then."""
    told = evidence.readiness.get("source")
    return told is not None and not told["reachable"]


def source(evidence: Evidence) -> Iterator[Finding]:
    told = evidence.readiness.get("source")
    if told and _is_source_away(evidence):
        what = f"{told['url']} does not answer since {told['since']}: {told['error']}"
        yield Finding("source", True, what, "no query is answered", "see source.url and that server")


def unscraped(evidence: Evidence) -> Iterator[Finding]:
    """Where another server has the samples, it has to fetch from here whose pods are whose."""
    told = evidence.readiness.get("source")
    if not told or _is_source_away(evidence):
        return
    if evidence.workloads and not evidence.ask("count(trilens_workload_pod_info)"):
        what = f"{told['url']} has no trilens_workload_pod_info: nobody scrapes /metrics/workloads here"
        means = "rules and dashboards there know no workloads, and findings reach no alert"
        remedy = (
            "scrape it as docs/alerts.md shows; with the Helm chart, serviceMonitor.labels must be what the "
            "serviceMonitorSelector of that Prometheus wants"
        )
        yield Finding("unscraped", True, what, means, remedy)


def reload(evidence: Evidence) -> Iterator[Finding]:
    """Asked for by a signal, it has nobody to tell that it failed."""
    if not evidence.is_reloaded:
        remedy = "trilens config check FILE says what is wrong; then reload again"
        yield Finding("reload", True, "the last reload failed", "the old settings are in force", remedy)


def scrapes_see(evidence: Evidence) -> str:
    up = sum(target["health"] == "up" for target in evidence.targets)
    return f"{up:,} of {many(len(evidence.targets), 'target')} up"


def scrapes(evidence: Evidence) -> Iterator[Finding]:
    total = Counter(target["scrapePool"] for target in evidence.targets)
    down: dict[tuple[str, str], list[str]] = defaultdict(list)
    for target in evidence.targets:
        if target["health"] == "down":
            down[target["scrapePool"], _without_address(target)].append(target["scrapeUrl"])
    for (pool, error), urls in sorted(down.items()):
        what = f"{pool}: {len(urls)} of {total[pool]} targets: {error} ({few(urls)})"
        remedy = "see that they run and can be reached from here, or change the scrape configuration"
        yield Finding("scrapes", True, what, "their samples are missing", remedy)


def left_out(evidence: Evidence) -> Iterator[Finding]:
    """Samples that came, and were not kept. Some of a restart are no news; what has a wrong time is."""
    for outcome, meaning in (("too_old", "older than what is taken"), ("too_far_ahead", "in the future")):
        if count := evidence.own("trilens_scrape_samples_total", outcome=outcome):
            what = f"{many(count, 'scraped sample')} left out since the start: {meaning}"
            remedy = "see the clocks of the machines that are scraped, or set honor_timestamps: false"
            yield Finding("left_out", False, what, "they bring times of their own, which are wrong", remedy)


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


def collection(evidence: Evidence) -> Iterator[Finding]:
    if "source" not in evidence.readiness and not evidence.clusters and not evidence.targets:
        what = "nothing is scraped, and no cluster is watched"
        remedy = "name clusters in kubernetes.clusters and jobs in scrape.scrape_configs"
        yield Finding("collection", False, what, "only what is sent here is known", remedy)


def _without_address(target: dict[str, Any]) -> str:
    """Its error, so that targets which fail alike are told together."""
    error = str(target["lastError"]).replace(target["scrapeUrl"], "").strip(": ")
    return error.replace(target["labels"].get("instance", "\0"), "it")
