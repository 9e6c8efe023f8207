"""Whose a GPU process is, and its place in a job."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from proc_tree import BOOT_S, CONTAINER_ID, POD_CGROUP, POD_UID, TORCHRUN, ProcTree

from trilens.collect.node.local_workloads import group_processes
from trilens.collect.node.processes import Process, ProcessTable
from trilens.collect.node.redaction import Redaction
from trilens.model.cgroups import Belonging, read_cgroup


def read(tree: ProcTree, pid: int) -> Process:
    process = ProcessTable(tree.folder, Redaction()).read(pid)
    assert process is not None
    return process


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


def test_a_torchrun_worker(tree: ProcTree) -> None:
    tree.add(463, environment=TORCHRUN | {"HF_TOKEN": "hf_secret", "PATH": "/bin"}, cgroup=POD_CGROUP)
    process = read(tree, 463)
    assert (process.rank, process.local_rank, process.world_size) == (0, 0, 1)
    assert process.environment["TORCHELASTIC_RUN_ID"] == TORCHRUN["TORCHELASTIC_RUN_ID"]
    assert process.environment.keys() <= TORCHRUN.keys()  # nothing that is not a place in a job
    assert process.belonging == Belonging(POD_UID, CONTAINER_ID, None)
    assert process.started_ms == BOOT_S * 1000 + 3443 * 1000 // os.sysconf("SC_CLK_TCK")
    assert (process.process_group, process.parent, process.session) == (463, 438, 463)


def test_this_process_in_the_real_proc() -> None:
    process = ProcessTable(Path("/proc")).read(os.getpid())
    assert process is not None
    assert process.process_group == os.getpgrp()
    assert process.command.startswith(sys.orig_argv[0])
    assert abs(process.started_ms - time.time() * 1000) < 24 * 3600 * 1000
    leads = Path(f"/proc/{os.getpgrp()}").exists()  # whoever started us in its group may have ended
    assert (process.group_leader is not None) == leads


def test_a_process_that_is_gone(tree: ProcTree) -> None:
    assert ProcessTable(tree.folder).read(4711) is None


def test_a_name_with_spaces_and_parentheses(tree: ProcTree) -> None:
    tree.add(7, "ray::Worker) (x")
    assert read(tree, 7).name == "ray::Worker) (x"


def test_what_may_not_be_read_is_left_out(tree: ProcTree) -> None:
    tree.add(7)
    for name in ("environ", "cmdline", "cgroup"):
        (tree.folder / "7" / name).unlink()
    process = read(tree, 7)
    assert (process.rank, process.command, process.belonging) == (None, "", Belonging())


def test_secrets_in_a_command_line(tree: ProcTree) -> None:
    tree.add(7, command=("python", "serve.py", "--api-key", "abc123", "--port=80"))
    assert read(tree, 7).command == "python serve.py --api-key [redacted] --port=80"


@pytest.mark.parametrize(
    ("environment", "rank", "local_rank", "world_size"),
    [
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}, 5, 1, 8),
        ({"SLURM_PROCID": "0", "RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4"}, 3, 3, 4),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
            2,
            0,
            4,
        ),
        ({"RANK": "", "PMI_RANK": "6"}, 6, None, None),
        ({"RANK": "first"}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_ranks_by_launcher(
    tree: ProcTree,
    environment: dict[str, str],
    rank: int | None,
    local_rank: int | None,
    world_size: int | None,
) -> None:
    tree.add(7, environment=environment)
    process = read(tree, 7)
    assert (process.rank, process.local_rank, process.world_size) == (rank, local_rank, world_size)


UNDERSCORED = POD_UID.replace("-", "_")
POD = Belonging(POD_UID, CONTAINER_ID)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD_CGROUP, POD),
        (f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER_ID}.scope", POD),
        (f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{CONTAINER_ID}.scope/container", POD),
        (f"0::/kubepods/besteffort/pod{POD_UID}/{CONTAINER_ID}", POD),
        (f"12:memory:/kubepods/burstable/pod{POD_UID}/{CONTAINER_ID}\n1:name=systemd:/x", POD),
        (
            f"11:cpu,cpuacct:/\n4:pids:/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/docker-{CONTAINER_ID}.scope",
            POD,
        ),
        (
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER_ID}.scope",
            POD,
        ),
        (f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER_ID}.scope", POD),
        (f"0::/kubepods/pod{'ab12' * 8}/{CONTAINER_ID}", Belonging("ab12" * 8, CONTAINER_ID)),
        (f"0::/system.slice/docker-{CONTAINER_ID}.scope", Belonging(None, CONTAINER_ID)),
        (
            f"0::/user.slice/user-1000.slice/libpod-{CONTAINER_ID}.scope/container",
            Belonging(None, CONTAINER_ID),
        ),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", Belonging(slurm_job="4711")),
        ("9:memory:/slurm/uid_1000/job_4711/step_batch", Belonging(slurm_job="4711")),
        ("0::/user.slice/user-1000.slice/session-3.scope", Belonging()),
        ("0::/process_api/c751903a73dcaceef6067429a5926e11", Belonging()),
        ("", Belonging()),
    ],
)
def test_control_groups_of_both_versions_and_drivers(text: str, expected: Belonging) -> None:
    assert read_cgroup(text) == expected


def test_a_program_by_its_name_as_the_kernel_cuts_it(tree: ProcTree) -> None:
    table = ProcessTable(tree.folder)
    assert not table.runs("dcgm-exporter")
    tree.add(7, "dcgm-exporter")
    tree.add(8, "a-rather-long-n")
    assert table.runs("dcgm-exporter")
    assert table.runs("a-rather-long-name")
    assert not ProcessTable(tree.folder / "not-there").runs("x")


# Jobs where there is no Kubernetes


def jobs(tree: ProcTree, *pids: int) -> list[tuple[str, str, str, list[int]]]:
    table = ProcessTable(tree.folder)
    processes = [process for pid in pids if (process := table.read(pid))]
    return [
        (key.group, key.kind, key.name, [process.pid for process in members])
        for key, members in group_processes(processes, "node-1").items()
    ]


def test_ranks_of_one_torchrun_are_one_job(tree: ProcTree) -> None:
    for pid, rank in ((12, 1), (11, 0), (10, 2)):
        tree.add(pid, environment=TORCHRUN | {"RANK": str(rank)})
    assert jobs(tree, 10, 11, 12) == [("torchrun", "Run", TORCHRUN["TORCHELASTIC_RUN_ID"], [11, 12, 10])]


def test_one_id_used_for_two_runs_at_a_time(tree: ProcTree) -> None:
    tree.add(10, environment={"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "a", "MASTER_PORT": "1"})
    tree.add(11, environment={"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "a", "MASTER_PORT": "2"})
    assert jobs(tree, 10, 11) == [("torchrun", "Run", "a:1", [10]), ("torchrun", "Run", "a:2", [11])]


def test_a_slurm_job_is_what_was_handed_in(tree: ProcTree) -> None:
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "finetune"}
    tree.add(10, environment=TORCHRUN | slurm)
    tree.add(
        11, cgroup="0::/system.slice/slurmstepd.scope/job_4711/step_0\n"
    )  # its environment may not be read
    assert jobs(tree, 11, 10) == [("slurm", "Job", "finetune", [10, 11])]


def test_processes_of_one_group(tree: ProcTree) -> None:
    tree.add(10, "bash")
    tree.add(11, "python", group=10)
    tree.add(12, "pt_data_worker", group=10)
    tree.add(13, "python")
    assert jobs(tree, 12, 11, 13) == [
        ("", "ProcessGroup", "bash-10", [11, 12]),
        ("", "ProcessGroup", "python-13", [13]),
    ]


def test_a_group_whose_number_is_used_again_is_another_job(tree: ProcTree, tmp_path: Path) -> None:
    tree.add(10)
    later = ProcTree(tmp_path / "later")
    later.add(10, ticks=9999)
    (before,) = group_processes([read(tree, 10)], "node-1")
    (after,) = group_processes([read(later, 10)], "node-1")
    assert before.uid != after.uid
    assert before.namespace == read(tree, 10).user
