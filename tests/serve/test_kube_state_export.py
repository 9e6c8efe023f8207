"""The kube_* series of a cluster: in the store and on the page, unless a kube-state-metrics tells them."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kube_objects import to_object
from trilens.model.errors import StoreReadOnly
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.kube_state import KubeStateExport
from trilens.serve.kube_state_page import MARKER
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

TIMES_MS = itertools.count(time.time_ns() // 1_000_000)  # each later than the one before


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("store")), upkeep=False)
    yield opened
    opened.close()


class Exporting:
    """An export of one cluster, whose name no other test has."""

    def __init__(self, store: Store | None, cluster: str, mode: Any = "auto", stored: Any = "all") -> None:
        self.store, self.cluster = store, cluster
        self.elapsed_s = 0.0
        self.export = KubeStateExport(
            [cluster], mode, store, lambda: self.elapsed_s, lambda: next(TIMES_MS), stored
        )

    def pod(self, name: str, phase: str = "Running", **metadata: Any) -> KubeObject:
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}", **metadata},
            "spec": {"nodeName": "n1"},
            "status": {"phase": phase},
        }
        return to_object(manifest, self.cluster)

    def tell(self) -> None:
        asyncio.run(self.export.tell([self.cluster]))

    def half_a_minute_later(self) -> None:
        self.elapsed_s += 30
        self.tell()

    def state(self) -> str:
        return self.export.states()[self.cluster]

    def metrics(self) -> set[str]:
        assert self.store is not None
        query = f'{{__name__=~"kube_.*", cluster="{self.cluster}"}}'
        answer = Engine(self.store).instant(query, next(TIMES_MS), QueryGuard())
        return {answer.labels.labels(row)["__name__"] for row in range(len(answer.labels))}

    def shown(self) -> set[tuple[str, str]]:
        assert self.store is not None
        query = f'kube_pod_status_phase{{cluster="{self.cluster}"}} == 1'
        answer = Engine(self.store).instant(query, next(TIMES_MS), QueryGuard())
        found = (answer.labels.labels(row) for row in range(len(answer.labels)))
        return {(labels["pod"], labels["phase"]) for labels in found}


def test_nothing_is_told_before_it_is_known_whether_another_tells_it(store: Store) -> None:
    here = Exporting(store, "unknown")
    here.export.changed(here.pod("a"))
    here.tell()
    assert here.shown() == set()
    assert here.state() == "silent: not known yet whether a kube-state-metrics is scraped"
    here.export.found({})
    here.tell()  # at once
    assert here.shown() == {("a", "Running")}
    assert here.state() == "exported"


def test_it_is_silent_while_a_kube_state_metrics_tells_and_speaks_again_after(store: Store) -> None:
    here = Exporting(store, "taking-turns")
    here.export.changed(here.pod("a"))
    here.export.found({})
    here.tell()
    here.export.found({"taking-turns": "ksm", "other": "x"})
    here.tell()
    assert here.shown() == set()
    assert here.state() == "silent: job 'ksm' scrapes a kube-state-metrics"
    assert b"kube_pod" not in here.export.page()
    here.export.changed(here.pod("b"))
    here.export.found({})
    here.tell()
    assert here.shown() == {("a", "Running"), ("b", "Running")}


def test_what_changes_is_told_and_what_is_gone_ends(store: Store) -> None:
    here = Exporting(store, "changing", "on")
    here.export.changed(here.pod("a", "Pending"))
    here.export.changed(here.pod("b"))
    here.tell()
    here.export.changed(here.pod("a", "Running"))
    here.export.removed(here.pod("b"))
    here.export.removed(here.pod("never seen"))
    here.tell()
    assert here.shown() == {("a", "Pending"), ("b", "Running")}  # not due yet
    here.half_a_minute_later()
    assert here.shown() == {("a", "Running")}


def test_what_nothing_of_ours_reads_is_on_the_page_alone_unless_asked_for(store: Store) -> None:
    every, used = Exporting(store, "every", "on", "all"), Exporting(store, "used", "on", "used")
    for here in (every, used):
        here.export.changed(here.pod("a", creationTimestamp="2026-01-01T00:00:00Z"))
        here.tell()
        assert b"kube_pod_created{" in here.export.page()
    assert every.metrics() - used.metrics() == {"kube_pod_created", "kube_pod_owner"}
    assert used.metrics() >= {"kube_pod_info", "kube_pod_status_phase"}


def test_what_went_while_trilens_was_away_ends(store: Store) -> None:
    before = Exporting(store, "restarted", "on")
    for name in ("a", "b"):
        before.export.changed(before.pod(name))
    before.tell()
    after = Exporting(store, "restarted", "on")
    after.export.changed(after.pod("b"))
    after.tell()
    assert after.shown() == {("b", "Running")}


def test_after_a_restart_nothing_ends_before_it_is_known_who_tells(store: Store) -> None:
    before = Exporting(store, "undecided", "on")
    before.export.changed(before.pod("a"))
    before.tell()
    after = Exporting(store, "undecided", "auto")
    after.export.changed(after.pod("a"))
    after.tell()
    assert after.shown() == {("a", "Running")}
    after.export.found({"undecided": "kube-state-metrics"})
    after.tell()
    assert after.shown() == set()


def test_what_went_while_trilens_was_away_ends_though_the_first_write_failed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise StoreReadOnly("the disk is full")

    before = Exporting(store, "refused", "on")
    before.export.changed(before.pod("a"))
    before.tell()
    after = Exporting(store, "refused", "on")
    after.export.changed(after.pod("b"))
    with monkeypatch.context() as patched:
        patched.setattr(store, "append", refuse)
        after.tell()
    after.half_a_minute_later()
    assert after.shown() == {("b", "Running")}


def test_off_ends_what_was_told_before_it_was_off(store: Store) -> None:
    before = Exporting(store, "switched-off", "on")
    before.export.changed(before.pod("a"))
    before.tell()
    after = Exporting(store, "switched-off", "off")
    after.export.changed(after.pod("a"))
    after.tell()
    assert after.shown() == set()
    assert after.state() == "off"


def test_two_owners_of_one_name_are_one_series() -> None:
    here = Exporting(None, "twins", "on")
    owner = {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u-1"}
    here.export.changed(here.pod("a", ownerReferences=[owner, {**owner, "uid": "u-2"}]))
    here.tell()
    assert here.export.page().count(b"\nkube_pod_owner{") == 1


def test_an_object_that_nobody_understands_does_not_silence_the_others(store: Store) -> None:
    here = Exporting(store, "defect", "on")
    here.export.changed(here.pod("\ud800"))  # no text that can be written down
    here.export.changed(here.pod("a"))
    here.tell()
    assert here.shown() == {("a", "Running")}


def test_kinds_that_are_not_told_are_not_kept(store: Store) -> None:
    here = Exporting(store, "kinds", "on")
    metadata = {"name": "e", "namespace": "ml", "uid": "u-e"}
    here.export.changed(to_object({"apiVersion": "v1", "kind": "Event", "metadata": metadata}, "kinds"))
    assert not here.export.is_of("kinds", "u-e")


def test_the_page_is_text_that_prometheus_reads() -> None:
    here = Exporting(None, "page", "on")
    here.export.changed(here.pod("a"))
    odd = {"name": 'a "quoted" \\ name\nof two lines', "uid": "u-odd"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": odd, "status": {"phase": "Active"}}
    here.export.changed(to_object(namespace, "page"))
    here.tell()
    families = {family.name: family for family in text_string_to_metric_families(here.export.page().decode())}
    (info,) = families["kube_pod_info"].samples
    assert info.labels == {
        "cluster": "page",
        "namespace": "ml",
        "pod": "a",
        "uid": "u-a",
        "node": "n1",
        "host_network": "false",
    }
    assert families["kube_namespace_status_phase"].samples[0].labels["namespace"] == odd["name"]
    assert families["kube_pod_info"].type == "gauge"
    assert [sample.labels for sample in families[MARKER].samples] == [{"cluster": "page"}]


def test_a_cluster_that_is_not_read_through_is_not_told_in_part() -> None:
    here = Exporting(None, "half", "on")
    here.export.changed(here.pod("a"))
    assert b"kube_pod" not in here.export.page()
    assert here.state() == "silent: not read through yet"


def test_a_full_disk_is_no_end(store: Store) -> None:
    with pytest.MonkeyPatch.context() as patch:
        here = Exporting(store, "full", "on")
        here.export.changed(here.pod("a"))
        patch.setattr(store, "append", refuse)
        here.tell()
        assert here.shown() == set()
    here.half_a_minute_later()
    assert here.shown() == {("a", "Running")}


def refuse(*_: object) -> None:
    raise StoreReadOnly("the disk is full")
