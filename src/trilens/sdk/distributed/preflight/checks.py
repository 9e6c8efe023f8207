"""What of the ranks' facts is not as it should be, in words that say what it leads to."""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.sdk.distributed.preflight.facts import RankFacts

_GIB: Final = 1 << 30
LEAST_SHARED_MEMORY: Final = _GIB  # a container's default of 64 MiB is what data loaders and NCCL run out of
LEAST_OPEN_FILES: Final = 4096
LEAST_LOCKED_MEMORY: Final = 64 << 20  # RDMA pins its buffers
LEAST_FREE_SHARE: Final = 0.9
MOST_CLOCK_US: Final = 100_000  # logs and traces of two nodes are hard to read side by side beyond that

# Settings that people leave behind after looking for something, and what they cost.
SUSPICIOUS: Final = {
    "NCCL_P2P_DISABLE": "GPUs of one node talk through host memory",
    "NCCL_SHM_DISABLE": "processes of one node talk through the network",
    "NCCL_IB_DISABLE": "nodes talk over TCP instead of RDMA",
    "NCCL_NET_GDR_DISABLE": "RDMA goes through host memory",
    "CUDA_LAUNCH_BLOCKING": "every kernel is waited for",
    "TORCH_NCCL_BLOCKING_WAIT": "every collective is waited for",
    "TORCH_NCCL_DESYNC_DEBUG": "every collective is written down in the store",
}
_PER_RANK: Final = frozenset({"CUDA_VISIBLE_DEVICES", "NCCL_HOSTID"})  # may differ
_OFF: Final = frozenset({"", "0"})


class Level(StrEnum):
    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    level: Level
    text: str
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


def check_facts(facts: Sequence[RankFacts]) -> list[Finding]:
    return [finding for check in _CHECKS for finding in check(facts)]


def _finding(check: str, level: Level, text: str, who: Iterable[RankFacts]) -> Finding:
    who = list(who)
    return Finding(
        check, level, text, tuple(one.rank for one in who), tuple(sorted({one.node for one in who}))
    )


def _gpus(facts: Sequence[RankFacts]) -> list[Finding]:
    """Where any rank has one, all must: else the whole job runs on the processors."""
    if all(one.gpu is None for one in facts):
        why = next((one.gpu_trouble for one in facts if one.gpu_trouble), None)
        return [_finding("gpu", Level.WARN, why, facts)] if why else []
    found = [
        _finding("gpu", Level.FAIL, one.gpu_trouble or "no GPU", [one]) for one in facts if one.gpu is None
    ]
    for gpu, one in ((one.gpu, one) for one in facts if one.gpu is not None):
        free = gpu.free_bytes / gpu.memory_bytes
        if free < LEAST_FREE_SHARE:
            text = f"only {free:.0%} of the GPU's memory is free: another program uses it"
            found.append(_finding("gpu-memory", Level.FAIL, text, [one]))
        if gpu.uncorrected_errors:
            text = f"{gpu.uncorrected_errors} uncorrected memory errors since the driver was loaded"
            found.append(_finding("gpu-ecc", Level.FAIL, text, [one]))
        if gpu.rows_to_remap:
            found.append(_finding("gpu-ecc", Level.FAIL, "memory rows wait for a reset of the GPU", [one]))
    models = Counter(one.gpu.name for one in facts if one.gpu is not None)
    if len(models) > 1:
        text = "GPUs differ: " + ", ".join(f"{count} {name}" for name, count in models.most_common())
        found.append(Finding("gpu", Level.WARN, text))
    uses = defaultdict(list)
    for one in facts:
        if one.gpu is not None and one.gpu.uuid is not None:
            uses[one.gpu.uuid].append(one)
    for uuid, users in uses.items():
        if len(users) > 1:
            found.append(_finding("gpu", Level.FAIL, f"ranks share the GPU {uuid}", users))
    return found


def _versions(facts: Sequence[RankFacts]) -> list[Finding]:
    found = []
    for what in ("driver", "cuda", "nccl", "torch", "python"):
        level = Level.WARN if what in ("driver", "python") else Level.FAIL
        told = {one.rank: one.versions.get(what) for one in facts}
        found += _odd_ones(facts, "versions", what, told, level)
    return found


def _settings(facts: Sequence[RankFacts]) -> list[Finding]:
    found = []
    for name in sorted({name for one in facts for name in one.settings} - _PER_RANK):
        told = {one.rank: one.settings.get(name, "unset") for one in facts}
        found += _odd_ones(facts, "settings", name, told, Level.FAIL)
        costs = SUSPICIOUS.get(name)
        users = [one for one in facts if one.settings.get(name, "") not in _OFF]
        if costs and users:
            found.append(_finding("settings", Level.WARN, f"{name} is set: {costs}", users))
    talkative = [one for one in facts if one.settings.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE")]
    if talkative:
        found.append(
            _finding("settings", Level.WARN, "NCCL_DEBUG writes a log that slows the start", talkative)
        )
    return found


def _limits(facts: Sequence[RankFacts]) -> list[Finding]:
    found = []
    shared = {one.rank: one.shared_memory_bytes for one in facts if one.shared_memory_bytes is not None}
    if small := [one for one in facts if shared.get(one.rank, LEAST_SHARED_MEMORY) < LEAST_SHARED_MEMORY]:
        least = min(shared[one.rank] for one in small)
        text = f"shared memory has {least >> 20} MiB (/dev/shm): data loader workers and NCCL need more"
        found.append(_finding("shared-memory", Level.FAIL, text, small))
    if few := [one for one in facts if one.open_files is not None and 0 <= one.open_files < LEAST_OPEN_FILES]:
        text = f"{min(one.open_files or 0 for one in few)} open files allowed: large jobs need more"
        found.append(_finding("open-files", Level.WARN, text, few))
    uses_rdma = [one for one in facts if any(i.name.startswith("ib") and i.is_up for i in one.interfaces)]
    if pinned := [
        one for one in uses_rdma if 0 <= _or_no_limit(one.locked_memory_bytes) < LEAST_LOCKED_MEMORY
    ]:
        text = "too little memory may be locked (ulimit -l): RDMA will fail"
        found.append(_finding("locked-memory", Level.FAIL, text, pinned))
    return found


def _or_no_limit(limit: int | None) -> int:
    return -1 if limit is None else limit


def _network(facts: Sequence[RankFacts]) -> list[Finding]:
    found = []
    for one in facts:
        if one.name_trouble:
            found.append(_finding("name", Level.WARN, one.name_trouble, [one]))
        for setting in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            wanted = one.settings.get(setting)
            if wanted and not any(names_interface(wanted, i.name) for i in one.interfaces if i.is_up):
                has = ", ".join(i.name for i in one.interfaces if i.is_up)
                text = f"{setting}={wanted} matches no interface that is up ({has})"
                found.append(_finding("interface", Level.FAIL, text, [one]))
    if len({one.node for one in facts}) > 1:
        ways = {one.rank: one.interface for one in facts}
        found += _odd_ones(facts, "interface", "interface towards rank 0", ways, Level.WARN)
        sizes = {one.rank: _mtu(one) for one in facts}
        found += _odd_ones(facts, "mtu", "MTU towards rank 0", sizes, Level.WARN)
        usable = [
            one for one in facts if len(_physical(one)) > 1 and "NCCL_SOCKET_IFNAME" not in one.settings
        ]
        if usable:
            names = ", ".join(_physical(usable[0]))
            text = f"several interfaces are up ({names}) and NCCL_SOCKET_IFNAME does not say which to use"
            found.append(_finding("interface", Level.WARN, text, usable))
    return found


def names_interface(wanted: str, name: str) -> bool:
    """As NCCL reads it: prefixes by comma, `=` for whole names, `^` for all but these."""
    if wanted.startswith("^"):
        return not names_interface(wanted[1:], name)
    if wanted.startswith("="):
        return name in wanted[1:].split(",")
    return any(name.startswith(prefix) for prefix in wanted.split(","))


def _physical(one: RankFacts) -> list[str]:
    virtual = ("lo", "docker*", "veth*", "virbr*", "br-*", "cni*", "cali*", "flannel*", "tun*", "dummy*")
    return [
        i.name for i in one.interfaces if i.is_up and not any(fnmatch.fnmatch(i.name, v) for v in virtual)
    ]


def _mtu(one: RankFacts) -> str | None:
    return next((str(i.mtu) for i in one.interfaces if i.name == one.interface), None)


def _odd_ones(
    facts: Sequence[RankFacts], check: str, what: str, told: Mapping[int, str | None], level: Level
) -> list[Finding]:
    """Those that differ from what most have; what is not known does not count."""
    known = {rank: value for rank, value in told.items() if value is not None}
    counted = Counter(known.values())
    if len(counted) < 2:
        return []
    usual, _ = counted.most_common(1)[0]
    odd = [one for one in facts if known.get(one.rank, usual) != usual]
    values = ", ".join(sorted({known[one.rank] for one in odd}))
    return [_finding(check, level, f"{what} differs: {values}, where most have {usual}", odd)]


_CHECKS: Final = (_versions, _settings, _limits, _network, _gpus)
