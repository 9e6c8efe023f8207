"""What `trilens doctor` finds on a machine: each check with a machine on which it does not hold."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from http_target import HttpTarget
from trilens.cli.checkup import machine
from trilens.cli.checkup.layers import examine_machine
from trilens.cli.checkup.machine import Machine
from trilens.collect.node import nvml
from trilens.model.errors import NodeError
from trilens.sdk.outbox.folder import About, make_folder

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC 12\n"
SILENT = "http://127.0.0.1:1"


class Answering:
    def gpus(self) -> list[Any]:
        return []


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with two GPUs, a driver and an agent, on which all is well."""
    for number, kind in ((0, "0x030200"), (1, "0x030200"), (2, "0x020700")):  # the third is a network card
        device = tmp_path / f"sys/bus/pci/devices/0000:0{number}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text(f"{kind}\n")
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(VERSION)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    (tmp_path / "dev/kmsg").touch()
    monkeypatch.setattr(nvml, "Driver", Answering)
    monkeypatch.setattr(machine, "_LITTLE_BYTES", 0)
    found = Machine(tmp_path, tmp_path / "spool", tmp_path, SILENT)
    found.torch_version = "2.13.0+cu130"
    return found


def checks(here: Machine) -> dict[str, tuple[bool, str]]:
    found = {one.check: (one.is_problem, one.what) for one in examine_machine(here).found}
    found.pop("agent_here", None)  # told by its own test
    return found


def test_all_is_well(here: Machine) -> None:
    examined = examine_machine(here)
    assert checks(here) == {}
    assert examined.sees.endswith("PyTorch 2.13.0+cu130, NVIDIA driver 550.54.15, 2 NVIDIA GPUs")


def test_a_machine_without_gpus_lacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LITTLE_BYTES", 0)
    bare = Machine(tmp_path, tmp_path / "spool", tmp_path, SILENT)
    bare.torch_version = "2.13.0+cpu"
    assert examine_machine(bare).found == ()


def test_gpus_without_a_driver(here: Machine) -> None:
    shutil.rmtree(here.root / "proc")
    what = "2 NVIDIA GPUs on the bus (0000:00:00.0, 0000:01:00.0), and no driver is loaded"
    assert checks(here) == {"driver": (True, what)}


def test_a_container_that_was_given_no_gpu(here: Machine) -> None:
    (here.root / "dev/nvidiactl").unlink()
    what = "the NVIDIA driver 550.54.15 is loaded, and /dev/nvidiactl is not here"
    assert checks(here) == {"driver": (False, what)}


@pytest.mark.parametrize(
    ("raised", "is_problem", "what"),
    [
        (NodeError("cannot ask the NVIDIA driver: Driver/library version mismatch"), True, "mismatch"),
        (ModuleNotFoundError("No module named 'pynvml'"), False, "nvidia-ml-py is not installed"),
    ],
)
def test_a_driver_that_cannot_be_asked(
    here: Machine, monkeypatch: pytest.MonkeyPatch, raised: Exception, is_problem: bool, what: str
) -> None:
    def refuses() -> None:
        raise raised

    monkeypatch.setattr(nvml, "Driver", refuses)
    ((told, said),) = checks(here).values()
    assert told is is_problem
    assert what in said


def test_a_kernel_log_that_may_not_be_read(here: Machine) -> None:
    (here.root / "dev/kmsg").unlink()
    assert checks(here) == {
        "kernel_log": (False, "you may not read the kernel's log: No such file or directory")
    }


def test_no_agent_or_another_program_in_its_place(here: Machine) -> None:
    (found,) = machine.agent_here(here)
    assert found.what == f"no agent answers at {SILENT}, and there are GPUs here"
    with HttpTarget("up 1\n") as target:
        here.agent = f"http://{target.address}"
        (found,) = machine.agent_here(here)
        assert found.what == f"another program answers at {here.agent}"
        target.say('trilens_agent_build_info{version="1"} 1\n')
        assert list(machine.agent_here(here)) == []


def test_torch_without_cuda(here: Machine) -> None:
    here.torch_version = "2.13.0+cpu"
    what = "PyTorch 2.13.0+cpu is built without CUDA, and there are GPUs here"
    assert checks(here) == {"torch": (True, what)}


def test_a_clock_that_nothing_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = Machine(spool=tmp_path, data=tmp_path)
    monkeypatch.setattr(machine, "_clock_state", lambda: 5)
    assert [one.what for one in machine.clock(here)] == ["this machine's clock is not synchronised"]
    for kept in (0, None):
        monkeypatch.setattr(machine, "_clock_state", lambda kept=kept: kept)
        assert list(machine.clock(here)) == []


def test_a_disk_that_is_nearly_full(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LITTLE_BYTES", 2**80)
    ((is_problem, what),) = checks(here).values()  # one disk is told once
    assert is_problem
    assert what.endswith(f"GiB are free at {here.root}")


def test_what_dead_processes_left(here: Machine) -> None:
    folder = make_folder(here.spool, About("r-1", 0, "w", "http://s", 1, "h", 2))
    folder.new_segment_path(1).write_bytes(b"x" * 1500)
    assert checks(here) == {}  # it lives, and sends what is its own
    folder.release()
    assert checks(here) == {"spool": (False, "1,500 bytes that 1 dead process told wait for 0s")}
