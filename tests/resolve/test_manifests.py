"""Every workload among the manifests of the corpus resolves to one workload with the right members."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import yaml

from kube_objects import MadeObjects, resolved, resolver
from operators_at_work import NO_WORKLOAD, Expected, put_to_work
from servers import corpus

if TYPE_CHECKING:
    from pathlib import Path

    from kube_objects import Manifest

CORPUS = corpus("manifests")

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no manifests at {CORPUS}")


def _read(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


FILES = sorted(CORPUS.rglob("*.yaml"))


def test_there_are_48() -> None:
    assert len(FILES) == 48


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_manifest_resolves(path: Path) -> None:
    documents = _read(path)
    runtimes = [one for one in documents if one["kind"] == "ClusterTrainingRuntime"]
    for document in documents:
        made = MadeObjects()
        work = put_to_work(document, made.create, runtimes)
        if work is None:
            assert document["kind"] in NO_WORKLOAD
            continue
        members = resolved(made.objects())
        keys = {member.workload for member in members.values()}
        assert len(keys) == 1, "one workload"
        (key,) = keys
        assert (key.kind, key.name) == (work.kind, work.name)
        assert key.uid == made.manifests[0]["metadata"]["uid"]
        found = {name: Expected(one.role, one.group, one.node_rank) for name, one in members.items()}
        assert found == work.members
        assert all(member.attempt == 0 for member in members.values())
        assert [doubt for member in members.values() for doubt in member.doubts] == []


def test_no_workload_comes_of_what_is_none() -> None:
    """Services, queues, runtimes and the like, put in as they are."""
    made = MadeObjects()
    for path in FILES:
        for document in _read(path):
            if document["kind"] in NO_WORKLOAD:
                made.create(document)
    found = resolver()
    assert resolved(made.objects(), found) == {}
    assert found.workloads() == {}
    assert Counter(one["kind"] for one in made.manifests) == {
        "AdmissionCheck": 1,
        "ClusterQueue": 3,
        "ClusterTrainingRuntime": 4,
        "ComputeDomain": 1,
        "ConfigMap": 1,
        "LocalQueue": 3,
        "Namespace": 1,
        "ProvisioningRequestConfig": 1,
        "ResourceClaimTemplate": 1,
        "ResourceFlavor": 3,
        "Secret": 1,
        "Service": 3,
        "Topology": 1,
    }


def test_labels_of_a_runtime_patch_give_team_and_cost_centre() -> None:
    (document,) = _read(CORPUS / "trainjob" / "02-runtime-patches.yaml")
    made = MadeObjects()
    put_to_work(document, made.create)
    found = resolver()
    resolved(made.objects(), found)
    (record,) = found.workloads().values()
    assert (record.team, record.cost_centre) == ("ml-platform", "research")


def test_queue_of_a_job_under_kueue_or_kai() -> None:
    for path, queue in (
        ("kueue/sample-job.yaml", "user-queue"),
        ("kai/pytorch-job.yaml", "default-queue"),
        ("volcano/job.yaml", "default"),
    ):
        made = MadeObjects()
        put_to_work(_read(CORPUS / path)[0], made.create)
        found = resolver()
        resolved(made.objects(), found)
        (record,) = found.workloads().values()
        assert record.queue == queue
