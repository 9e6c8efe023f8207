"""Whose a process is, by the control group it runs in: pod, container or Slurm job."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# kubepods-burstable-pod3b7e_....slice (systemd, with _ for -) or /pod3b7e-.../ (cgroupfs). The uid of a
# static pod is a hash without dashes.
_POD: Final = re.compile(
    r"(?:^|[/-])pod(?P<uid>[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?(?:/|$)"
)
# cri-containerd-<id>.scope, crio-<id>.scope, docker-<id>.scope, libpod-<id>.scope or just /<id>
_CONTAINER: Final = re.compile(r"(?:/|-)(?P<id>[0-9a-f]{64})(?:\.scope)?(?:/|$)")
_SLURM: Final = re.compile(r"/slurm[^/]*(?:/[^/]+)*?/job_(?P<job>\d+)(?:/|$)")


class Belonging(NamedTuple):
    pod_uid: str | None = None
    container_id: str | None = None
    slurm_job: str | None = None


NOBODYS: Final = Belonging()


def read_cgroup(text: str) -> Belonging:
    """`text` is /proc/PID/cgroup, of version 1 (a line a controller), 2 (one line) or both."""
    pod = container = slurm = None
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if found := _POD.search(path):
            pod = pod or _dashed(found["uid"])
        if found := _CONTAINER.search(path):
            container = container or found["id"]
        if found := _SLURM.search(path):
            slurm = slurm or found["job"]
    return Belonging(pod, container, slurm)


def _dashed(uid: str) -> str:
    return uid.replace("_", "-")
