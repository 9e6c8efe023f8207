"""Who is meant by a name: one workload, pod or node, or all that it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from empty_records import NoRecords
from trilens.diagnose.case_file import SubjectKind
from trilens.model.errors import NotFound, RequestError
from trilens.serve.cases.subjects import Meant, Subjects
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
