"""Whether samples come in, are kept and are answered from: the store, the scrapes, the settings."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence


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
        yield Finding(
            "storage", True, f"writes are refused: {reason}", "new samples are lost", "free space on its disk"
        )
    for damage in store.get("damage", []):
        yield Finding("storage", True, str(damage), "those samples are not shown", "restore it from a backup")


def source(evidence: Evidence) -> Iterator[Finding]:
    told = evidence.readiness.get("source")
    if told and not told["reachable"]:
        what = f"{told['url']} does not answer since {told['since']}: {told['error']}"
        yield Finding("source", True, what, "no query is answered", "see source.url and that server")


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
