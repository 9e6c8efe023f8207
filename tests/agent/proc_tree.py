"""A /proc made of files, with processes as they were seen on a real machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BOOT_S = 1_794_722_216
# Of a torchrun worker that trained on an H200.
STAT = (
    "{pid} ({name}) S 438 {group} {group} 0 -1 4194560 1071283 0 127 0 2459 737 0 0 20 0 34 0 {ticks} "
    "40887660544 378564 18446744073709551615 4325376 7352253 140736515362080 0 0 0 0 16781312 2 0 0 0 17 15 0"
)
TORCHRUN = {
    "RANK": "0",
    "GROUP_RANK": "0",
    "ROLE_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "38331",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_RUN_ID": "e41fc2c0-3d10-46ce-8438-6ab0c6a153ab",
    "LOCAL_RANK": "0",
}
POD_UID = "3b7e9a52-6f0c-4d8e-9b1a-2c5d7e8f9a01"
CONTAINER_ID = "9f" * 32
POD_CGROUP = (
    f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD_UID.replace('-', '_')}.slice"
    f"/cri-containerd-{CONTAINER_ID}.scope\n"
)


class ProcTree:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "stat").write_text(f"cpu  1 2 3\nbtime {BOOT_S}\n", encoding="utf-8")

    def add(
        self,
        pid: int,
        name: str = "python",
        *,
        group: int | None = None,
        ticks: int = 3443,
        environment: dict[str, str] | None = None,
        cgroup: str = "0::/user.slice\n",
        command: tuple[str, ...] = ("python", "-u", "train.py"),
    ) -> None:
        folder = self.folder / str(pid)
        folder.mkdir()
        stat = STAT.format(pid=pid, name=name, group=group or pid, ticks=ticks)
        (folder / "stat").write_text(stat, encoding="utf-8")
        (folder / "comm").write_text(f"{name}\n", encoding="utf-8")
        (folder / "cgroup").write_text(cgroup, encoding="utf-8")
        (folder / "cmdline").write_bytes("\0".join(command).encode() + b"\0")
        pairs = (f"{key}={value}" for key, value in (environment or {}).items())
        (folder / "environ").write_bytes("\0".join(pairs).encode() + b"\0")
