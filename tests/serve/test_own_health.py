"""What the server tells of itself: room, memory, clusters, agents, its certificate, its log; and keeps."""

from __future__ import annotations

import logging
import socket
import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from certificates import make_certificates
from trilens.alert.rule_tests.memory_sink import MemorySink
from trilens.collect.kubernetes.rbac import Grant
from trilens.collect.kubernetes.state import ClusterState, ResourceState, Trouble
from trilens.collect.target import TargetStatus
from trilens.model.kubernetes import GroupKind
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.serve.logs import configure_logs, log_metrics
from trilens.serve.own_health import (
    agent_metrics,
    certificate_ends_s,
    cluster_metrics,
    disk_metrics,
    memory_metrics,
    store_disk_metrics,
    sync_metrics,
)
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.self_series import SelfSeries, scrapes_itself
from trilens.settings.server import ServerSettings
from trilens.store.disks import DiskSyncs, StoreDisk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client import Metric


def told(metrics: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """By name, and the values of labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def test_the_room_on_its_disk(tmp_path: Path) -> None:
    found = told(disk_metrics(tmp_path))
    assert 0 < found[("trilens_disk_free_bytes",)] <= found[("trilens_disk_size_bytes",)]


def test_a_disk_that_is_gone_is_not_full(tmp_path: Path) -> None:
    assert told(disk_metrics(tmp_path / "none")) == {}


def test_the_room_on_the_disks_of_a_clickhouse() -> None:
    found = told(store_disk_metrics([StoreDisk("ch-1", "default", 5, 9), StoreDisk("ch-2", "default", 3, 9)]))
    assert found["trilens_clickhouse_disk_free_bytes", "ch-2", "default"] == 3
    assert found["trilens_clickhouse_disk_size_bytes", "ch-1", "default"] == 9


def test_how_long_disks_take_to_keep_something() -> None:
    found = told(sync_metrics([DiskSyncs("", 40, 0.5), DiskSyncs("ch-1", 7, 2.5)]))
    assert found["trilens_store_disk_syncs_total", ""] == 40
    assert found["trilens_store_disk_sync_seconds_total", ""] == 0.5
    assert found["trilens_store_disk_sync_seconds_total", "ch-1"] == 2.5


def test_memory_is_limited_by_the_container_or_else_by_the_machine(tmp_path: Path) -> None:
    limit, unlimited = tmp_path / "memory.max", tmp_path / "unlimited"
    limit.write_text("104857600\n")
    unlimited.write_text("max\n")
    name = ("trilens_memory_limit_bytes",)
    assert told(memory_metrics([str(limit)]))[name] == 104_857_600
    assert told(memory_metrics([str(unlimited), str(tmp_path / "none")]))[name] > 2**30


def _resource(trouble: Trouble | None, heard_ms: int | None) -> ResourceState:
    return ResourceState(GroupKind("", "Pod"), "v1", "", True, 40, trouble, heard_ms, 1, 1, 0)


def test_a_permission_that_is_not_given_is_no_trouble_of_a_cluster() -> None:
    """Who does not give it may mean that; `trilens doctor` names it."""
    grant = Grant("", "secrets", "")
    resources = (
        _resource(Trouble("refused", 0, grant), None),
        _resource(Trouble("the watch broke", 0), 4_000),
        _resource(None, 9_000),
    )
    state = ClusterState("c1", True, None, _resource(None, None), resources)
    found = told(cluster_metrics([state]))
    assert found[("trilens_cluster_troubles", "c1")] == 1
    assert found[("trilens_cluster_synced", "c1")] == 1
    assert found[("trilens_cluster_heard_timestamp_seconds", "c1")] == 9
    assert found[("trilens_cluster_objects", "c1")] == 120


def test_agents_by_whether_they_answer() -> None:
    agents: list[Any] = [SimpleNamespace(trouble=None), SimpleNamespace(trouble="timeout")]
    assert told([agent_metrics(agents)]) == {
        ("trilens_agents", "answering"): 1,
        ("trilens_agents", "silent"): 1,
    }


def test_when_its_certificate_ends(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    ends_s = certificate_ends_s(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "ca.pem")
    authority = context.get_ca_certs()[0]["notAfter"]
    assert ends_s is not None
    assert abs(ends_s - ssl.cert_time_to_seconds(str(authority))) < 2 * 86_400
    assert certificate_ends_s(None) is None


def test_what_is_logged_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    try:
        before = told(log_metrics())
        configure_logs(ServerSettings())
        logging.getLogger("trilens.test").error("this is a test")
        after = told(log_metrics())
    finally:
        root.setLevel(level)
    error = ("trilens_log_lines_total", "error")
    assert after[error] - before[error] == 1
    assert ("trilens_log_lines_total", "critical") in after  # before there is any


def test_it_keeps_its_own_metrics_and_ends_those_that_are_no_more() -> None:
    source, metrics = MemorySource(), SelfMetrics()
    there = ["c1", "c2"]
    metrics.watch(lambda: cluster_metrics([_cluster(name) for name in there]))
    store: Any = MemorySink(source)
    series = SelfSeries(metrics, store, "here:9333")
    series.tell(15_000)
    there.remove("c2")
    series.tell(30_000)

    def found(query: str) -> list[dict[str, str]]:
        answer = Engine(source).instant(query, 30_000, QueryGuard())
        return [answer.labels.labels(row) for row in range(len(answer.labels))]

    assert [one["cluster"] for one in found("trilens_cluster_synced")] == ["c1"]
    (build,) = found("trilens_build_info")
    assert (build["job"], build["instance"]) == ("trilens", "here:9333")
    assert found("process_resident_memory_bytes")


def test_while_it_scrapes_itself_it_tells_nothing_beside_that() -> None:
    source, is_scraped = MemorySource(), [False]
    store: Any = MemorySink(source)
    series = SelfSeries(SelfMetrics(), store, "here:9333", lambda: is_scraped[0])
    series.tell(15_000)
    is_scraped[0] = True
    series.tell(30_000)
    engine = Engine(source)
    assert len(engine.instant("trilens_build_info", 29_000, QueryGuard()).labels) == 1
    assert len(engine.instant("trilens_build_info", 30_000, QueryGuard()).labels) == 0


@pytest.mark.parametrize(
    ("url", "health", "is_own"),
    [
        ("http://127.0.0.1:9333/metrics", "up", True),
        ("http://localhost:9333/metrics", "up", True),
        (f"https://{socket.gethostname()}:9333/metrics?a=b", "up", True),
        ("http://127.0.0.1:9333/metrics", "down", False),  # it needs a token that nobody gave it
        ("http://127.0.0.1:9333/metrics/kubernetes", "up", False),
        ("http://127.0.0.1:9334/metrics", "up", False),
        ("http://192.0.2.1:9333/metrics", "up", False),
        ("http://other:9333/metrics", "up", False),
    ],
)
def test_it_knows_itself_among_its_targets(url: str, health: Any, is_own: bool) -> None:
    target = TargetStatus("job", {}, {}, url, health, "", None, None, 15, 10)
    assert scrapes_itself([target], 9333) is is_own


def _cluster(name: str) -> ClusterState:
    return ClusterState(name, True, None, _resource(None, None), (_resource(None, 1_000),))
