"""Whether this machine lets Trilens see it: driver, kernel log, agent, clock, disk, and what waits here."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import time
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.model.errors import NodeError
from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

_NVIDIA: Final = "0x10de"
_DISPLAY: Final = "0x03"  # the class of graphics and 3D controllers; NVIDIA makes network cards, too
_UNSYNCHRONISED: Final = 5  # TIME_ERROR of adjtimex
_LITTLE_BYTES: Final = 2 * 2**30
_AGENT: Final = "http://127.0.0.1:9334"


def _spool() -> Path:
    from trilens.sdk.guard import Guard
    from trilens.sdk.options import read_options

    return read_options(Guard()).spool_dir


@dataclass
class Machine:
    """Where to look. Tests look elsewhere."""

    root: Path = Path("/")
    spool: Path = field(default_factory=_spool)
    data: Path = field(default_factory=Path.cwd)  # where `trilens up` keeps its own, unless told
    agent: str = _AGENT

    @cached_property
    def driver_version(self) -> str | None:
        """Of the kernel module; None where it is not loaded."""
        try:
            told = (self.root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        first = told.partition("\n")[0].split()
        return next((word for word in first if word[:1].isdigit() and "." in word), "unknown")

    @cached_property
    def cards(self) -> list[str]:
        """The addresses of NVIDIA's GPUs on the bus, driver or not."""
        found = []
        for device in sorted(self.root.glob("sys/bus/pci/devices/*")):
            try:
                vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
            except OSError:
                continue
            if vendor == _NVIDIA and kind.startswith(_DISPLAY):
                found.append(device.name)
        return found

    @property
    def has_gpus(self) -> bool:
        """In a container the bus and the module are the host's, and the devices are not there."""
        return self.driver_version is not None and (self.root / "dev/nvidiactl").exists()

    @cached_property
    def torch_version(self) -> str | None:
        try:
            return metadata.version("torch")
        except metadata.PackageNotFoundError:
            return None


def machine_sees(here: Machine) -> str:
    parts = [f"Python {platform.python_version()}"]
    if here.torch_version:
        parts.append(f"PyTorch {here.torch_version}")
    if here.driver_version:
        parts.append(f"NVIDIA driver {here.driver_version}")
    parts.append(many(len(here.cards), "NVIDIA GPU") if here.cards else "no NVIDIA GPU")
    return ", ".join(parts)


def driver(here: Machine) -> Iterator[Finding]:
    if here.cards and here.driver_version is None:
        what = (
            f"{many(len(here.cards), 'NVIDIA GPU')} on the bus ({few(here.cards)}), and no driver is loaded"
        )
        remedy = "modprobe nvidia, then dmesg | grep NVRM; install the driver if it is not there"
        yield Finding("driver", True, what, "no program can use them", remedy)
    elif here.driver_version is not None and not here.has_gpus:
        what = f"the NVIDIA driver {here.driver_version} is loaded, and /dev/nvidiactl is not here"
        means = "no program here can use a GPU: this is a container without one, or the devices were not made"
        remedy = (
            "ask for nvidia.com/gpu (or docker run --gpus all); on the machine itself: nvidia-modprobe -c 0"
        )
        yield Finding("driver", False, what, means, remedy)


def management_library(here: Machine) -> Iterator[Finding]:
    if not here.has_gpus:
        return
    from trilens.collect.node.nvml import Driver

    try:
        Driver().gpus()
    except ImportError:
        what = "the package nvidia-ml-py is not installed, and there are GPUs here"
        means = "an agent on this machine cannot read them"
        yield Finding("management_library", False, what, means, "pip install 'trilens[agent]'")
    except NodeError as e:
        means = "nothing is read of its GPUs"
        remedy = "see nvidia-smi; after an update of the driver, reboot or reload its modules"
        yield Finding("management_library", True, e.message, means, remedy)


def kernel_log(here: Machine) -> Iterator[Finding]:
    if not here.has_gpus:
        return
    try:
        os.close(os.open(here.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as e:
        what = f"you may not read the kernel's log: {e.strerror}"
        means = "an agent that you start here sees no Xid; one that runs as root does"
        remedy = "run it as root, or with CAP_SYSLOG and /dev/kmsg; docs/agent.md has what it needs"
        yield Finding("kernel_log", False, what, means, remedy)


def agent_here(here: Machine) -> Iterator[Finding]:
    if not here.has_gpus:
        return
    import httpx

    try:
        told = httpx.get(f"{here.agent}/metrics", timeout=5, trust_env=False).text
    except httpx.HTTPError:
        what = f"no agent answers at {here.agent}, and there are GPUs here"
        means = "Xids of this machine are not counted, and which process is on which GPU is not known"
        remedy = (
            "run trilens agent here; where it listens elsewhere, or the server reads the GPUs, leave it be"
        )
        yield Finding("agent_here", False, what, means, remedy)
        return
    if "trilens_agent_build_info" not in told:
        what = f"another program answers at {here.agent}"
        remedy = "give the agent another port: agent.listen"
        yield Finding("agent_here", False, what, "an agent cannot listen there", remedy)


def torch(here: Machine) -> Iterator[Finding]:
    version = here.torch_version
    if here.has_gpus and version is not None and version.endswith("+cpu"):
        what = f"PyTorch {version} is built without CUDA, and there are GPUs here"
        remedy = "pip install torch from the index of your CUDA version (pytorch.org/get-started)"
        yield Finding("torch", True, what, "training runs on the CPU, about 100 times slower", remedy)


def clock(here: Machine) -> Iterator[Finding]:
    """As the kernel has it: whatever keeps the time tells the kernel."""
    if here.root == Path("/") and _clock_state() == _UNSYNCHRONISED:
        means = "times that are told from here may not fit those of others"
        remedy = "see chrony or systemd-timesyncd"
        yield Finding("clock", False, "this machine's clock is not synchronised", means, remedy)


def disk(here: Machine) -> Iterator[Finding]:
    told = set()
    for place, use in (
        (here.spool, "what programs tell waits there"),
        (here.data, "the server's data is there"),
    ):
        there = next((one for one in (place, *place.parents) if one.exists()), None)
        if there is None or (device := there.stat().st_dev) in told:
            continue
        told.add(device)
        free = shutil.disk_usage(there).free
        if free < _LITTLE_BYTES:
            what = f"{free / 2**30:.1f} GiB are free at {there}"
            yield Finding("disk", True, what, f"{use}, and is lost when the disk is full", "free some space")


def spool(here: Machine) -> Iterator[Finding]:
    from trilens.cli.times import show_length
    from trilens.sdk.outbox.folder import find_folders

    found = [one for one in find_folders(here.spool) if one.bytes_there]
    left = [one for one in found if not one.is_alive]
    if left:
        runs = few(sorted({one.about.run for one in left}))
        since = show_length(max(0.0, time.time() - min(one.changed_s for one in left)))
        size = sum(one.bytes_there for one in left)
        dead = many(len(left), "dead process", "dead processes")
        what = f"{many(size, 'byte')} that {dead} told wait for {since}"
        means = f"no server has taken them: the ends of runs are not known ({runs})"
        yield Finding("spool", False, what, means, "trilens spool send ships them")


def _clock_state() -> int | None:
    """None where nobody tells. With no mode set the kernel is only asked."""
    try:
        asked = ctypes.create_string_buffer(1024)  # larger than the struct is anywhere
        state = int(ctypes.CDLL(None).adjtimex(asked))
    except (OSError, AttributeError):
        return None
    return state if state >= 0 else None
