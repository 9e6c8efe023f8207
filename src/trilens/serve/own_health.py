"""How the server itself fares, beside what its parts count: room, memory, whom it asks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from trilens.serve.state_metrics import gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import Metric

    from trilens.alert.manager import RuleManager
    from trilens.collect.agents.roster import Agent
    from trilens.collect.kubernetes.state import ClusterState
    from trilens.collect.manager import ScrapeManager
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.reloading import InForce
    from trilens.serve.upstream import Upstream
    from trilens.store.disks import DiskSyncs, StoreDisk

# Of a container, by the newer and by the older interface of Linux.
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class OwnHealth(NamedTuple):
    """None where there is no such part."""

    data_dir: Path
    in_force: Callable[[], InForce]
    scrapes: ScrapeManager | None
    rules: RuleManager | None
    clusters: ClusterIntake | None
    agents: AgentIntake | None
    upstream: Upstream | None
    certificate_ends_s: Callable[[], float | None]  # since the epoch; of the one in use
    store_disks: Callable[[], Sequence[StoreDisk]]  # of a ClickHouse
    disk_syncs: Callable[[], Sequence[DiskSyncs]]

    def metrics(self) -> Iterator[Metric]:
        yield from disk_metrics(self.data_dir)
        if disks := self.store_disks():
            yield from store_disk_metrics(disks)
        if syncs := self.disk_syncs():
            yield from sync_metrics(syncs)
        yield from memory_metrics()
        is_latest = float(self.in_force().is_latest)
        latest_help = "0 while the settings in force are not those of the last reload, which failed."
        yield gauge("trilens_settings_last_reload_successful", latest_help, is_latest)
        if self.scrapes is not None:
            troubles = len(self.scrapes.discovery_troubles())
            yield gauge("trilens_scrape_discovery_troubles", "Jobs whose targets cannot be found.", troubles)
        if self.rules is not None:
            unread = len(self.rules.unread)
            yield gauge("trilens_rules_left_out", "Rule groups and files that could not be read.", unread)
        if self.clusters is not None:
            yield from cluster_metrics(self.clusters.states())
        if self.agents is not None:
            yield agent_metrics(self.agents.agents())
        if self.upstream is not None:
            is_there = float(self.upstream.trouble is None)
            yield gauge("trilens_source_up", "1 while the server at source.url answers.", is_there)
        if (ends_s := self.certificate_ends_s()) is not None:
            ends_help = "When the certificate that this server shows ends."
            yield gauge("trilens_tls_certificate_expiry_timestamp_seconds", ends_help, ends_s)


def disk_metrics(data_dir: Path) -> Iterator[Metric]:
    try:
        room = shutil.disk_usage(data_dir)
    except OSError:  # gone, or not allowed: unknown is not zero
        return
    free_help = "Room that is left on the file system of storage.data_dir."
    yield gauge("trilens_disk_free_bytes", free_help, room.free)
    yield gauge("trilens_disk_size_bytes", "Size of the file system of storage.data_dir.", room.total)


def store_disk_metrics(disks: Sequence[StoreDisk]) -> Iterator[Metric]:
    labels = ["host", "disk"]
    free_help = "Room that is left on a disk of the ClickHouse at storage.url."
    free = GaugeMetricFamily("trilens_clickhouse_disk_free_bytes", free_help, labels=labels)
    size_help = "Size of that disk."
    size = GaugeMetricFamily("trilens_clickhouse_disk_size_bytes", size_help, labels=labels)
    for disk in disks:
        free.add_metric([disk.host, disk.name], disk.free_bytes)
        size.add_metric([disk.host, disk.name], disk.size_bytes)
    yield from (free, size)


def sync_metrics(syncs: Sequence[DiskSyncs]) -> Iterator[Metric]:
    count_help = "Times that the store waited for a disk to keep something; host is that of a ClickHouse."
    counts = CounterMetricFamily("trilens_store_disk_syncs", count_help, labels=["host"])
    seconds_help = "How long it waited in all of these."
    seconds = CounterMetricFamily("trilens_store_disk_sync_seconds", seconds_help, labels=["host"])
    for one in syncs:
        counts.add_metric([one.host], one.times)
        seconds.add_metric([one.host], one.seconds)
    yield from (counts, seconds)


def memory_metrics(limits: Sequence[str] = _LIMITS) -> Iterator[Metric]:
    """What this process may have: the container's limit, or all that the machine has."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in limits:
        try:
            found.append(int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is none, or it says "max"
            continue
    yield gauge("trilens_memory_limit_bytes", "Memory that this process may take at most.", min(found))


def cluster_metrics(states: Sequence[ClusterState]) -> Iterator[Metric]:
    synced_help = "1 once all that may be read of a cluster has been read."
    synced = GaugeMetricFamily("trilens_cluster_synced", synced_help, labels=["cluster"])
    troubles_help = "What of a cluster cannot be followed now; /readyz says why."
    troubles = GaugeMetricFamily("trilens_cluster_troubles", troubles_help, labels=["cluster"])
    heard_help = "When the API server of a cluster last said something."
    heard = GaugeMetricFamily("trilens_cluster_heard_timestamp_seconds", heard_help, labels=["cluster"])
    objects = GaugeMetricFamily("trilens_cluster_objects", "Objects of a cluster known.", labels=["cluster"])
    for state in states:
        synced.add_metric([state.cluster], float(state.synced))
        troubles.add_metric([state.cluster], _troubles(state))
        objects.add_metric([state.cluster], sum(one.objects for one in state.resources))
        times_ms = [one.heard_ms for one in state.resources if one.heard_ms is not None]
        if times_ms:
            heard.add_metric([state.cluster], max(times_ms) / 1000)
    yield from (synced, troubles, heard, objects)


def _troubles(state: ClusterState) -> int:
    """Without those that a permission would end: who does not give it may mean that."""
    found = (state.trouble, state.definitions.trouble, *(one.trouble for one in state.resources))
    return sum(one is not None and one.grant is None for one in found)


def agent_metrics(agents: Sequence[Agent]) -> Metric:
    answers_help = "Agents that are asked, by whether they answer."
    family = GaugeMetricFamily("trilens_agents", answers_help, labels=["state"])
    silent = sum(agent.trouble is not None for agent in agents)
    family.add_metric(["answering"], len(agents) - silent)
    family.add_metric(["silent"], silent)
    return family


def certificate_ends_s(file: Path | None) -> float | None:
    """Since the epoch; of the server's own, which comes first in its file. None where there is none."""
    if file is None:
        return None
    from cryptography import x509  # few servers have one, and it takes a tenth of a second to load

    first = x509.load_pem_x509_certificates(file.read_bytes())[0]
    return first.not_valid_after_utc.timestamp()
