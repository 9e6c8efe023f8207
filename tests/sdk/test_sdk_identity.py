"""Rank, launcher and run id from the environments that launchers make."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from trilens.sdk.identity import Ancestor, identify, process_start, process_started_ms
from trilens.sdk.run_names import RunName, name_run

if TYPE_CHECKING:
    from pathlib import Path

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "node-a",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_NODEID": "1",
    "SLURM_JOB_NAME": "sweep",
}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "team"}
TRAINER = {
    **POD,
    **TORCHRUN,
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "llama-node-0-0.llama",
    "MASTER_ADDR": "llama-node-0-0.llama",
    "JOB_COMPLETION_INDEX": "1",
    "HOSTNAME": "llama-node-0-1",
}


def test_jobs_of_one_name_in_two_clusters_are_two_runs(tmp_path: Path) -> None:
    def run(**more: str) -> str:
        return name_run(identify({**TRAINER, **more}, tmp_path), None, {}, arguments=["a"]).id

    one, east, west = run(), run(TRILENS_CLUSTER="east"), run(TRILENS_CLUSTER="west")
    assert len({one, east, west}) == 3
    assert identify({"TRILENS_CLUSTER": " east\n"}, tmp_path).cluster == "east"
    assert identify({"TRILENS_CLUSTER": ""}, tmp_path).cluster is None


def who(environ: dict[str, str], proc: Path) -> dict[str, Any]:
    return identify(environ, proc)._asdict()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"rank": 0, "world_size": 1, "local_rank": 0, "launcher": None, "pod": None}),
        (
            TORCHRUN,
            {
                "rank": 5,
                "world_size": 8,
                "local_rank": 1,
                "local_world_size": 4,
                "node_rank": 1,
                "launcher": "torchrun",
                "job": None,
                "coordinator": "node-a:29500",
                "restarts": 2,
            },
        ),
        (
            SRUN,
            {
                "rank": 3,
                "world_size": 4,
                "local_rank": 1,
                "node_rank": 1,
                "launcher": "slurm",
                "job": "77.0",
                "job_name": "sweep",
            },
        ),
        ({**SRUN, **TORCHRUN}, {"rank": 5, "world_size": 8, "launcher": "slurm", "job": "77.0"}),
        # The batch script itself has the variables of a rank, but is none of many.
        (
            {**SRUN, "SLURM_STEP_ID": "4294967291"},
            {"rank": 0, "world_size": 1, "launcher": "slurm", "job": "77"},
        ),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
             "PMIX_NAMESPACE": "prterun-a-1@1"},
            {"rank": 2, "world_size": 4, "launcher": "mpi", "job": "prterun-a-1@1"},
        ),
        (
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            {"rank": 1, "world_size": 2, "local_rank": 1, "local_world_size": 2, "launcher": "mpi"},
        ),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, {"rank": 1, "launcher": "mpi"}),
        (
            TRAINER,
            {
                "rank": 5,
                "launcher": "kubeflow",
                "job_name": "llama",
                "namespace": "team",
                "pod": "llama-node-0-1",
            },
        ),
        (
            {**POD, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "bert-master-0", "POD_NAME": "bert-w-0"},
            {"rank": 1, "job_name": "bert", "pod": "bert-w-0"},
        ),
        (
            {**POD, "JOBSET_NAME": "js", "JOB_COMPLETION_INDEX": "2", "POD_NAME": "js-w-0-2-abcde"},
            {"rank": 0, "launcher": "jobset", "job": "js", "pod": "js-w-0-2-abcde"},
        ),
        (
            {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "c:1"},
            {"rank": 1, "world_size": 2, "launcher": "jax", "coordinator": "c:1"},
        ),
        ({"RANK": "x", "WORLD_SIZE": "-1"}, {"rank": 0, "world_size": 1}),
        ({"RANK": "3"}, {"rank": 3, "world_size": 4}),
    ],
    ids=["alone", "torchrun", "srun", "torchrun in srun", "batch script", "open mpi", "hydra", "mvapich",
         "trainer v2", "pytorchjob", "jobset", "jax", "nonsense", "rank alone"],
)  # fmt: skip
def test_the_place_of_a_process(environ: dict[str, str], expected: dict[str, Any], tmp_path: Path) -> None:
    found = who(environ, tmp_path)
    assert {name: found[name] for name in expected} == expected


def test_the_pod_is_known_by_what_the_kubelet_mounts(tmp_path: Path) -> None:
    uid = "3b7e0f0a-1111-2222-3333-444455556666"
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "mountinfo").write_text(
        f"801 700 8:1 /var/lib/kubelet/pods/{uid}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
        f"802 700 8:1 /var/lib/kubelet/pods/{uid}/containers/trainer/1a2b /dev/log rw - ext4 /d rw\n"
    )
    found = identify(POD, tmp_path)
    assert (found.pod_uid, found.container) == (uid, "trainer")


def name(environ: dict[str, str], tmp_path: Path, *, experiment: str = "e", **more: Any) -> RunName:
    return name_run(identify(environ, tmp_path), experiment, environ, **more)


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was given in this process gets a number when it comes again."""
    monkeypatch.setattr("trilens.sdk.run_names._given", _Forgetful())


class _Forgetful(dict[str, int]):
    def get(self, key: str, default: Any = None) -> Any:
        return default


ONE_NODE = {**TORCHRUN, "LOCAL_WORLD_SIZE": "8"}
SPAWNED = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
LAUNCHER = Ancestor(100, "5000")


@pytest.mark.parametrize(
    ("environ", "other"),
    [
        (TORCHRUN, {"RANK": "1", "LOCAL_RANK": "0", "TORCHELASTIC_RESTART_COUNT": "3"}),
        (ONE_NODE, {"RANK": "1", "LOCAL_RANK": "0", "MASTER_PORT": "40001"}),
        (SPAWNED, {"RANK": "0"}),
        (SRUN, {"SLURM_PROCID": "0", "SLURM_RESTART_COUNT": "1"}),
        (
            TRAINER,
            {"RANK": "0", "JOB_COMPLETION_INDEX": "0", "HOSTNAME": "llama-node-0-0", "MASTER_PORT": "1"},
        ),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "mine"}, {"RANK": "0", "MASTER_PORT": "1"}),
    ],
    ids=["several nodes", "one node", "spawned", "srun", "trainer v2", "named"],
)
def test_ranks_and_restarts_of_one_job_have_one_run(
    environ: dict[str, str], other: dict[str, str], tmp_path: Path
) -> None:
    first = name(environ, tmp_path, parent=LAUNCHER, arguments=["t.py"])
    second = name({**environ, **other}, tmp_path, parent=LAUNCHER, arguments=["t.py"])
    assert first.id == second.id


@pytest.mark.parametrize(
    ("environ", "other", "more"),
    [
        ({}, {}, {}),
        (SRUN, {"SLURM_JOB_ID": "78"}, {}),
        (SRUN, {"SLURM_STEP_ID": "1"}, {}),
        (TORCHRUN, {"MASTER_ADDR": "node-b"}, {}),
        (ONE_NODE, {}, {"parent": Ancestor(100, "9999")}),
        (SPAWNED, {}, {"parent": Ancestor(100, "9999")}),
        (TRAINER, {"MASTER_ADDR": "bert-node-0-0.bert", "PET_MASTER_ADDR": "bert-node-0-0.bert"}, {}),
        ({**SRUN, "SLURM_STEP_ID": ""}, {}, {"arguments": ["other.py"]}),
        (SRUN, {}, {"experiment": "other"}),
    ],
    ids=[
        "alone",
        "slurm job",
        "slurm step",
        "meeting",
        "launcher",
        "spawned",
        "trainer v2",
        "batch script",
        "experiment",
    ],
)
def test_different_jobs_have_different_runs(
    environ: dict[str, str], other: dict[str, str], more: dict[str, Any], tmp_path: Path
) -> None:
    usual: dict[str, Any] = {"parent": LAUNCHER, "arguments": ["t.py"]}
    assert name(environ, tmp_path, **usual).id != name({**environ, **other}, tmp_path, **{**usual, **more}).id


def test_a_run_id_in_doubt_says_so(tmp_path: Path) -> None:
    assert "TRILENS_RUN_ID" in (name(TORCHRUN, tmp_path).doubt or "")
    nothing_shared = {"PMI_RANK": "0", "PMI_SIZE": "2"}
    assert "nothing that all 2 ranks have in common" in (name(nothing_shared, tmp_path).doubt or "")
    assert name(SRUN, tmp_path).doubt is None
    assert name(ONE_NODE, tmp_path).doubt is None


def test_runs_one_after_the_other_in_a_process_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.sdk.run_names._given", {})
    first, second = name(SRUN, tmp_path).id, name(SRUN, tmp_path).id
    assert second == f"{first}.2"


def test_any_experiment_makes_a_valid_id(tmp_path: Path) -> None:
    found = name(SRUN, tmp_path, experiment="größe / ünd 中文" * 20).id
    assert len(found) <= 64
    assert all(c.isascii() and (c.isalnum() or c in "_.:-") for c in found)


def test_when_this_process_started_is_what_its_parent_sees() -> None:
    parent = Ancestor.parent()
    assert parent.start == process_start(parent.pid)
    assert process_started_ms() is not None
    assert process_start(2**22 + 1) is None


def test_a_process_group_that_exists_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that start their ranks by multiprocessing set no variables."""

    class Group:
        is_available = is_initialized = staticmethod(lambda: True)
        get_rank = staticmethod(lambda: 2)
        get_world_size = staticmethod(lambda: 3)

    monkeypatch.setitem(sys.modules, "torch.distributed", Group)
    found = identify({"RANK": "0", "WORLD_SIZE": "1"}, tmp_path)
    assert (found.rank, found.world_size) == (2, 3)


def test_an_indexed_job_is_known_by_the_names_of_its_pods(tmp_path: Path) -> None:
    environ = {**POD, "JOB_COMPLETION_INDEX": "3", "HOSTNAME": "sweep-3", "POD_NAME": "sweep-3-x7k2p"}
    found = identify(environ, tmp_path)
    assert (found.launcher, found.job, found.pod, found.rank) == ("job", "sweep", "sweep-3-x7k2p", 0)
    assert name(environ, tmp_path).id != name({**environ, "JOB_COMPLETION_INDEX": "4"}, tmp_path).id
