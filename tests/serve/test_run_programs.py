"""Programs that tell of their runs are scraped, listed, and joined with workloads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from http_target import HttpTarget
from run_records import OTHER, RUN, facts, process
from trilens.collect.config import load_scrape_config
from trilens.collect.manager import ScrapeManager
from trilens.model.life import MembershipInterval
from trilens.model.matcher import Matcher
from trilens.model.node import member_uid
from trilens.model.query import QueryGuard
from trilens.model.run import Ending
from trilens.model.run_commit import RunCommit
from trilens.model.series import SelectRequest
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.serve.run_programs import RunPrograms
from trilens.serve.scrape_jobs import ScrapeJobs
from trilens.settings.yaml_file import Place
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.run import RankProcess

TRAIN = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
LOCAL = WorkloadKey("machines", "ada", "", "ProcessGroup", "python", "u2")


class Heard:
    def __init__(self) -> None:
        self.now: list[RankProcess] = []

    def processes(self) -> list[RankProcess]:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(StoreOptions(tmp_path / "data"), upkeep=False)
    yield opened
    opened.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


def programs(heard: Heard, store: Store, scraped: Any = None) -> RunPrograms:
    made = RunPrograms(heard, store.runs, store.workloads, store, scraped)
    made.start()
    return made


def shown(store: Store, metric: str) -> list[dict[str, str]]:
    request = SelectRequest((Matcher("__name__", "=", metric),), 0, 1 << 50)
    labels = store.select(request, QueryGuard()).labels
    return [dict(labels.labels(row)) for row in range(len(labels))]


def test_a_program_is_scraped_while_it_lives(store: Store, heard: Heard) -> None:
    manager = ScrapeManager([], store)
    jobs = ScrapeJobs(manager, [])
    jobs.start()
    with HttpTarget("training_loss 0.5\n") as target:
        alive = process(metrics_address=target.address, namespace="ml", pod="train-0", node="gpu-1")
        silent, odd = process(1), process(2, metrics_address="http://gpu-1:9000/metrics")
        heard.now = [alive, silent, odd]
        seen = programs(heard, store, (manager, jobs, {"scrape_interval": "100ms"}))
        seen.look()
        assert target.asked.acquire(timeout=30)
        (status,) = manager.targets()
        assert status.labels == {
            "job": "trilens-run",
            "instance": target.address,
            "namespace": "ml",
            "pod": "train-0",
            "node": "gpu-1",
            "run": RUN,
        }
        heard.now = [replace(alive, ending=Ending.LOST)]
        seen.look()
        assert manager.targets() == []
        seen.stop()
        jobs.stop()


def test_what_a_job_scrapes_already_is_not_scraped_twice(store: Store, heard: Heard, tmp_path: Path) -> None:
    section = {"static_configs": [{"targets": ["10.0.0.1:9400"]}], "scrape_interval": "1h"}
    job = load_scrape_config(section, tmp_path, Place(None), "kubernetes-pods")
    manager = ScrapeManager([job], store)
    jobs = ScrapeJobs(manager, [job])
    jobs.start()
    heard.now = [process(metrics_address="10.0.0.1:9400"), process(1, metrics_address="10.0.0.2:9400")]
    seen = programs(heard, store, (manager, jobs, {"scrape_interval": "1h"}))
    seen.look()
    seen.look()  # its own targets are no reason to leave one out
    found = sorted((status.job, status.labels["instance"]) for status in manager.targets())
    assert found == [("kubernetes-pods", "10.0.0.1:9400"), (f"trilens-run/{RUN}", "10.0.0.2:9400")]
    seen.stop()
    jobs.stop()


def test_processes_are_found_in_workloads_by_pod_or_by_machine(store: Store, heard: Heard) -> None:
    local_uid = member_uid("box", 77, 11_000)
    members = (
        Membership(PodKey("lab", "ml", "train-0", "p0"), TRAIN, 2, "worker", None, 0),
        Membership(PodKey("machines", "ada", "python-77@box", local_uid), LOCAL),
    )
    for member in members:
        store.workloads.membership(MembershipInterval(member, "gpu-1", 500, None))
    store._records.close()  # writes them
    store.runs.commit(RunCommit(facts=[facts(experiment="lr", name="first")]))
    heard.now = [
        process(metrics_address="a:1", namespace="ml", pod="train-0", pod_uid="p0", heard_ms=5_000),
        # Its start was told a second later than the agent's look said.
        process(3, run=OTHER, metrics_address="b:1", node="box", pid=77, process_started_ms=12_000),
        process(4, run=OTHER, metrics_address="c:1", node="box", pid=78, process_started_ms=12_000),
    ]
    seen = programs(heard, store)
    seen.look()
    first, local, unknown = sorted(seen.programs(), key=lambda program: program.address)
    assert (first.workload, first.attempt, first.role, first.rank) == (TRAIN, 2, "worker", 0)
    assert (local.workload, local.pod.uid) == (LOCAL, local_uid)
    assert (unknown.workload.name, unknown.rank, unknown.node) == ("", 4, "box")
    infos = {labels["run"]: labels for labels in shown(store, "trilens_run_info")}
    assert infos[RUN] == {
        "__name__": "trilens_run_info",
        "run": RUN,
        "name": "first",
        "experiment": "lr",
        "cluster": "lab",
        "namespace": "ml",
        "workload": "train",
        "kind": "Job",
    }
    assert infos[OTHER]["workload"] == "python"
    seen.stop()


def test_of_each_rank_the_latest_process_is_shown(store: Store, heard: Heard) -> None:
    heard.now = [process(0, 1), process(0, 0, ending=Ending.FAILED), process(1, ending=Ending.LOST)]
    seen = programs(heard, store)
    seen.look()
    (family,) = (metric for metric in seen.metrics() if metric.name == "trilens_run_process_up")
    assert {sample.labels["rank"]: sample.value for sample in family.samples} == {"0": 1.0, "1": 0.0}
    seen.stop()
