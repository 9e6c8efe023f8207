"""What one rank finds on its machine. None is "could not be found out", never zero."""

from __future__ import annotations

import resource
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.sdk.identity import Identity

_SETTINGS: Final = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "GLOO_",
    "UCX_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH",
)
_NETWORK: Final = Path("/sys/class/net")


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    uuid: str | None
    memory_bytes: int
    free_bytes: int
    uncorrected_errors: int | None = None  # since the driver was loaded
    rows_to_remap: bool | None = None  # a reset is waited for
    index: int = 0  # as this rank's PyTorch counts


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    mtu: int | None
    is_up: bool


@dataclass(frozen=True, slots=True)
class RankFacts:
    rank: int
    local_rank: int
    node: str
    machine: str  # of its running kernel
    versions: Mapping[str, str | None]  # python, torch, cuda, nccl, driver
    gpu: Gpu | None = None
    gpu_trouble: str | None = None  # why there is none, where one was expected
    shared_memory_bytes: int | None = None
    locked_memory_bytes: int | None = None  # -1: no limit
    open_files: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    interfaces: tuple[Interface, ...] = ()
    interface: str | None = None  # on the way to rank 0's machine
    name_trouble: str | None = None  # its own name, looked up


def find_facts(identity: Identity, environ: Mapping[str, str], machine: str) -> RankFacts:
    torch: Any = sys.modules["torch"]
    gpu, trouble = _gpu(torch, identity.local_rank)
    return RankFacts(
        rank=identity.rank,
        local_rank=identity.local_rank,
        node=identity.node,
        machine=machine,
        versions=_versions(torch),
        gpu=gpu,
        gpu_trouble=trouble,
        shared_memory_bytes=_shared_memory(),
        locked_memory_bytes=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        settings={name: value for name, value in sorted(environ.items()) if name.startswith(_SETTINGS)},
        interfaces=tuple(_interfaces()),
        interface=_interface_towards(environ.get("MASTER_ADDR")),
        name_trouble=_name_trouble(),
    )


def _gpu(torch: Any, local_rank: int) -> tuple[Gpu | None, str | None]:
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        return None, "this PyTorch is built for CUDA but sees no GPU" if built else None
    seen = torch.cuda.device_count()
    index = 0 if seen == 1 else local_rank  # a launcher that shows each rank its own GPU shows it only that
    if index >= seen:
        return None, f"local rank {local_rank} has no GPU: PyTorch sees {seen}"
    try:
        free, total = torch.cuda.mem_get_info(index)
        told = torch.cuda.get_device_properties(index)
    except RuntimeError as error:
        return None, str(error).split("\n", 1)[0]
    uuid = getattr(told, "uuid", None)
    name = f"GPU-{uuid}" if uuid is not None else None
    errors, rows = _health(name)
    return Gpu(told.name, name, total, free, errors, rows, index), None


def _health(uuid: str | None) -> tuple[int | None, bool | None]:
    """As the driver tells, where its library for Python is installed."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except Exception:  # noqa: BLE001 - no library, no driver, no such GPU: not known
        return None, None
    errors = rows = None
    with suppress(pynvml.NVMLError):
        errors = int(
            pynvml.nvmlDeviceGetTotalEccErrors(
                device, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
            )
        )
    with suppress(pynvml.NVMLError):
        _, _, pending, failed = pynvml.nvmlDeviceGetRemappedRows(device)
        rows = bool(pending or failed)
    return errors, rows


def _versions(torch: Any) -> dict[str, str | None]:
    nccl = driver = None
    if torch.cuda.is_available():
        with suppress(Exception):
            nccl = ".".join(map(str, torch.cuda.nccl.version()))
        with suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            told = pynvml.nvmlSystemGetDriverVersion()
            driver = told.decode() if isinstance(told, bytes) else str(told)
    return {
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "nccl": nccl,
        "driver": driver,
    }


def _shared_memory() -> int | None:
    try:
        return shutil.disk_usage("/dev/shm").total  # noqa: S108 - what is looked at is its size
    except OSError:
        return None


def _interfaces() -> list[Interface]:
    found = []
    with suppress(OSError):
        for folder in sorted(_NETWORK.iterdir()):
            state = _line(folder / "operstate")
            mtu = _line(folder / "mtu")
            found.append(Interface(folder.name, int(mtu) if mtu else None, state in ("up", "unknown")))
    return found


def _line(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _interface_towards(master: str | None) -> str | None:
    """The one whose address the kernel would send from."""
    if not master:
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((master, 9))  # of a datagram socket: nothing is sent
            address = probe.getsockname()[0]
    except OSError:
        return None
    return next((name for name, own in _addresses() if own == address), None)


def _addresses() -> list[tuple[str, str]]:
    import fcntl
    import struct

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(asked, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
                found.append((name, socket.inet_ntoa(answer[20:24])))
    return found


def _name_trouble() -> str | None:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        return f"{name} does not resolve: {error}"
    return None
