"""Who is meant by a name: one workload, pod or node, or all that it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from empty_records import NoRecords
from trilens.diagnose.case_file import SubjectKind
from trilens.model.errors import IntakeError, NotFound, RequestError
from trilens.model.life import Phase, PhaseInterval
from trilens.model.workload import PodKey, WorkloadKey
from trilens.serve.cases.subjects import Meant, PodPlace, Subjects
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import WorkloadRecords
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES = [("lab", "node-a"), ("lab", "node-b"), ("other", "node-b"), ("lab", "train-0")]


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subjects]:
    with some_records(tmp_path_factory.mktemp("records")) as records:
        yield Subjects(records, NoRecords(), lambda: NODES)  # type: ignore[arg-type]


def _find(subjects: Subjects, written: str, namespace: str | None = None) -> Meant:
    return subjects.find(written, namespace, minute(25), None)


@pytest.mark.parametrize(
    ("written", "namespace", "found"),
    [
        ("pytorchjob/train", None, "lab/ml/PyTorchJob.kubeflow.org/train"),
        ("ml/train", None, "lab/ml/PyTorchJob.kubeflow.org/train"),
        ("train", "web", "lab/web/Deployment.apps/train"),
        ("job.batch/batch", None, "lab/ml/Job.batch/batch"),
        ("lab/ml/PyTorchJob/train", None, "lab/ml/PyTorchJob.kubeflow.org/train"),
        ("web/tune", None, "lab/web/Job.batch/tune"),  # which is gone
        ("tune", None, "lab/ml/Job.batch/tune"),  # of two that are gone, the one that went last
        ("train-1", None, "lab/ml/pod/train-1"),
        ("pod/train-0", None, "lab/ml/pod/train-0"),
        ("ml/train-1", None, "lab/ml/pod/train-1"),
        ("lab/ml/pod/train-1", None, "lab/ml/pod/train-1"),
        ("node-a", None, "lab/node/node-a"),
        ("node/train-0", None, "lab/node/train-0"),
        ("other/node/node-b", None, "other/node/node-b"),
    ],
)
def test_one_is_meant(subjects: Subjects, written: str, namespace: str | None, found: str) -> None:
    meant = _find(subjects, written, namespace)
    assert meant.written == found
    assert (meant.history is None) == (meant.subject.kind is SubjectKind.NODE)
    assert _find(subjects, meant.written).subject == meant.subject


@pytest.mark.parametrize(
    ("written", "choices"),
    [
        ("train", ["lab/ml/PyTorchJob.kubeflow.org/train", "lab/web/Deployment.apps/train"]),
        ("job/batch", ["lab/ml/Job.batch/batch", "lab/ml/Job.batch.volcano.sh/batch"]),
        ("train-0", ["lab/ml/pod/train-0", "lab/node/train-0"]),
        ("node-b", ["lab/node/node-b", "other/node/node-b"]),
    ],
)
def test_where_several_are_called_so_all_are_named(
    subjects: Subjects, written: str, choices: list[str]
) -> None:
    with pytest.raises(RequestError) as refused:
        _find(subjects, written)
    assert all(choice in str(refused.value) for choice in choices)


ALONE = [
    PodPlace(PodKey("lab", "kube-system", "etcd-a", "u1"), "node-a"),
    PodPlace(PodKey("other", "kube-system", "etcd-a", "u2"), "node-b"),
    PodPlace(PodKey("lab", "gpu-operator", "plugin-x", "u3"), "node-a"),
    PodPlace(PodKey("lab", "ml", "train-1", "train-1"), "node-a"),  # which is in a workload
]


def _with_pods(subjects: Subjects) -> Subjects:
    pods = lambda name: [one for one in ALONE if one.pod.name == name]  # noqa: E731
    return Subjects(subjects._workloads, subjects._gpus, lambda: NODES, pods)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("plugin-x", "lab/gpu-operator/pod/plugin-x"),
        ("gpu-operator/plugin-x", "lab/gpu-operator/pod/plugin-x"),
        ("other/kube-system/pod/etcd-a", "other/kube-system/pod/etcd-a"),
        ("pod/train-1", "lab/ml/pod/train-1"),
    ],
)
def test_a_pod_in_no_workload_is_known_by_what_is_followed(
    subjects: Subjects, written: str, found: str
) -> None:
    meant = _find(_with_pods(subjects), written)
    assert meant.written == found
    assert (meant.alone is None) == (meant.history is not None)


def test_two_of_a_name_in_no_workload_are_both_named(subjects: Subjects) -> None:
    with pytest.raises(RequestError, match="lab/kube-system/pod/etcd-a, other/kube-system/pod/etcd-a"):
        _find(_with_pods(subjects), "etcd-a")


def test_a_workload_of_which_only_its_phase_is_on_disk_yet(subjects: Subjects) -> None:
    """Tables are written one after the other, and somebody may ask in between."""
    early, engine = WorkloadKey("lab", "ml", "apps", "Deployment", "early", "u9"), subjects._workloads._engine
    writer = RecordWriter(engine)
    WorkloadRecords(engine, writer).phase(PhaseInterval(early, 0, Phase.QUEUED, "", minute(0)))
    writer.close()
    meant = _find(subjects, "early")
    assert meant.written == "lab/ml/Deployment.apps/early"
    assert meant.history is not None
    assert [one.phase for one in meant.history.phases] == [Phase.QUEUED]


def test_clusters_that_are_busy_hide_nobody_whom_the_store_knows(subjects: Subjects) -> None:
    def busy(*_: object) -> list[PodPlace]:
        raise IntakeError("the clusters keep their thread busy")

    asked = Subjects(subjects._workloads, subjects._gpus, busy, busy)  # type: ignore[arg-type]
    assert _find(asked, "train-1").written == "lab/ml/pod/train-1"
    with pytest.raises(IntakeError):
        _find(asked, "nobody")


@pytest.mark.parametrize(
    "written", ["nobody", "ml/nobody", "node/nobody", "pod/nobody", "other/ml/Job/batch"]
)
def test_where_nobody_is_called_so(subjects: Subjects, written: str) -> None:
    with pytest.raises(NotFound):
        _find(subjects, written)


@pytest.mark.parametrize("written", ["", "a//b", "a/b/c/d/e"])
def test_what_is_no_name(subjects: Subjects, written: str) -> None:
    with pytest.raises(RequestError):
        _find(subjects, written)
