"""What a process tells of itself: who it is (`process`), and how it stands (`state` of the protocol)."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.identity import process_started_ms

if TYPE_CHECKING:
    from trilens.sdk.identity import Identity
    from trilens.sdk.recorder import Recorder

# Addresses that are nobody's: nothing is sent there.
_NOWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class ProcessFacts:
    """`process` and `state` for the outbox, which asks again and again: more may be known by then."""

    def __init__(self, recorder: Recorder, metrics_address: str | None) -> None:
        self._recorder = recorder
        who = recorder.identity
        self._fixed = {
            "started_ms": time_ns() // 1_000_000,
            "local_rank": who.local_rank,
            "world_size": who.world_size,
            "node": who.node,
            "pid": os.getpid(),
            "process_started_ms": process_started_ms(),
            "cluster": who.cluster,
            "namespace": who.namespace,
            "pod": who.pod,
            "pod_uid": who.pod_uid,
            "container": who.container,
            "launcher": who.launcher,
            "job": who.job,
            "metrics_address": metrics_address,
        }

    def process(self) -> dict[str, Any]:
        return {**self._fixed, "gpus": list(self._recorder.gpus), "versions": _versions()}

    def state(self) -> dict[str, Any]:
        recorder = self._recorder
        return {
            "heartbeat_s": recorder.options.heartbeat_s,
            "step": recorder.step,
            "phase": recorder.phase or recorder.activity,
            "clock_offset_us": recorder.clock_offset_us,
            "lost": recorder.guard.counts(),
        }


def listens_beyond_this_machine(who: Identity) -> bool:
    """Whoever scrapes a pod, or a job over several machines, is elsewhere."""
    return who.in_kubernetes or who.launcher == "slurm" or not who.on_one_node


def reachable(address: str | None, who: Identity, pod_ip: str | None) -> str | None:
    """host:port of a listening socket as others would write it: not 0.0.0.0."""
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    if host.strip("[]") not in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        return address
    own = pod_ip or _own_address() or who.node
    return f"[{own}]:{port}" if ":" in own else f"{own}:{port}"


def _own_address() -> str | None:
    """Of the interface that leads out of this machine, as the routing table has it."""
    for family, address in _NOWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    return None


def _versions() -> dict[str, str]:
    """Of what the program has loaded so far."""
    from trilens import __version__

    found = {"python": sys.version.split()[0], "trilens": __version__}
    torch = sys.modules.get("torch")
    for name, version in (
        ("torch", getattr(torch, "__version__", None)),
        ("cuda", getattr(getattr(torch, "version", None), "cuda", None)),
        ("jax", getattr(sys.modules.get("jax"), "__version__", None)),
    ):
        if version is not None:
            found[name] = str(version)
    return found
