"""A container of a rendered pod as a process of this machine, as a runtime would start it.

In a mount namespace of its own it has a read-only root with the pod's volumes at their paths, the user and
the capabilities of its security context, and no variable but the image's and the pod's. What stands for the
image is this environment, at the image's path. A pod's address is one of loopback. It needs root, to make the
namespace and to give root up.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
from container_image import image

from servers import end_with_the_tests, missing, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/proc", "/sys")
_ETC = ("/etc/ld.so.cache", "/etc/passwd", "/etc/nsswitch.conf", "/etc/ssl")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_PROJECT = Path(__file__).parents[2] / "src"


class Mount(NamedTuple):
    source: Path
    target: str
    read_only: bool


class Container:
    """One that runs. `address` is the pod's."""

    def __init__(self, spec: Json, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self._spec = spec
        self._process = process
        self._address = address
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def status(self) -> dict[str, str]:
        """/proc/PID/status: who it is and what it may."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def probe(self, name: str) -> bool:
        asked = self._spec[name]["httpGet"]
        port = next(one["containerPort"] for one in self._spec["ports"] if one["name"] == asked["port"])
        url = f"{asked['scheme'].lower()}://{self._address}:{port}{asked['path']}"
        try:
            # As a kubelet asks: it looks at no certificate, and anything from 200 to 399 is well.
            return httpx.get(url, verify=False, trust_env=False, timeout=10).status_code < 400
        except httpx.TransportError:
            assert self._process.poll() is None, f"it ended:\n{self.log[-3000:]}"
            return False

    def until_well(self) -> None:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            if name in self._spec:
                until(lambda name=name: self.probe(name), f"{name} fails:\n{self.log[-3000:]}")


@contextmanager
def running_container(
    target: str,
    pod: Json,
    *,
    address: str,
    volumes: Mapping[str, Path],
    environ: Mapping[str, str],
    folder: Path,
) -> Iterator[Container]:
    """`target` is a stage of the Containerfile; `volumes` are the pod's, by their names, and what a cluster
    adds, by its path; `environ` has the pod's fields by their paths, and what a cluster adds."""
    if os.geteuid() != 0:
        missing("a container's file system can be made by root only")
    container = pod["containers"][0]
    context = {**pod.get("securityContext", {}), **container["securityContext"]}
    assert context["readOnlyRootFilesystem"]
    made = image(target)
    mounts = [
        Mount(volumes[one["name"]], one["mountPath"], bool(one.get("readOnly")))
        for one in container["volumeMounts"]
    ]
    mounts += [Mount(source, path, True) for path, source in volumes.items() if path.startswith("/")]
    variables = {**made.environ, "HOME": "/", **_variables(container, environ)}
    command = [*made.entrypoint, *container.get("args", made.command)]
    log = folder / f"{container['name']}.log"
    script = _script(folder / f"{container['name']}-root", mounts, context, variables, command)
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script],
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_the_tests,
        )
    try:
        yield Container(container, process, address, log)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _variables(container: Json, fields: Mapping[str, str]) -> dict[str, str]:
    """Those that the pod names, and those that a cluster adds."""
    named = {
        one["name"]: one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
        for one in container.get("env", [])
    }
    given = {name: value for name, value in fields.items() if name.isupper()}
    # A variable may name those before it.
    values = {name: re.sub(r"\$\((\w+)\)", lambda one: named[one[1]], text) for name, text in named.items()}
    return {**values, **given}


def _script(
    root: Path, mounts: Sequence[Mount], context: Json, variables: Mapping[str, str], command: Sequence[str]
) -> str:
    """What makes the file system, becomes the user, and then is the program itself."""
    root.mkdir()
    lines = [f"mount -t tmpfs tmpfs {root}", f"mkdir -m 755 {root}/etc {root}/dev {root}/opt"]
    for path in _SYSTEM:
        lines += [f"mkdir -p {root}{path}", f"mount --rbind {path} {root}{path}"]
    lines += [f"cp -r {path} {root}/etc" for path in _ETC if Path(path).exists()]
    lines += [f"touch {root}{path}; mount --bind {path} {root}{path}" for path in _DEVICES]
    programs = [
        Mount(path, str(path), True) for path in (Path(sys.prefix), Path(sys.base_prefix).resolve(), _PROJECT)
    ]
    lines.append(f"ln -s {sys.prefix} {root}/opt/trilens")
    # What lies in another comes after it: a checkout may be below /tmp, which is a volume of the pod.
    for mount in sorted([*programs, *mounts], key=lambda one: one.target):
        lines += _bound(root, mount)
    lines.append(f"mount -o remount,ro {root}")
    become = ["chroot", str(root), "setpriv", *_privileges(context)]
    start = ["env", "--ignore-environment", *(f"{name}={value}" for name, value in variables.items())]
    lines.append(f"exec {shlex.join([*become, *start, *command])}")
    return "\n".join(lines)


def _bound(root: Path, mount: Mount) -> list[str]:
    target = f"{root}{mount.target}"
    if mount.source.is_dir():
        made = f"mkdir -p {target}"
    else:
        made = f"mkdir -p {Path(target).parent}; [ -e {target} ] || touch {target}"
    lines = [made, f"mount --bind {mount.source} {target}"]
    return [*lines, f"mount -o remount,ro,bind {target}"] if mount.read_only else lines


def _privileges(context: Json) -> list[str]:
    user, group = context["runAsUser"], context["runAsGroup"]
    groups = [f"--groups={context['fsGroup']}"] if "fsGroup" in context else ["--clear-groups"]
    who = [f"--reuid={user}", f"--regid={group}", *groups]
    if context.get("privileged"):
        return who
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"]["drop"] == ["ALL"]
    added = "".join(f",+{name.lower()}" for name in context["capabilities"].get("add", []))
    return [*who, "--inh-caps=-all", f"--bounding-set=-all{added}", "--no-new-privs"]
