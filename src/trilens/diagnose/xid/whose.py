"""Whose work a fault hit: the pods and workloads that an agent saw there at that time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.event import EventKind
from trilens.model.pci import PciAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.case_file import CaseFile
    from trilens.diagnose.xid.kernel_log import Seen

_SAME_MS: Final = 5_000
_ZONE_MS: Final = 15 * 60_000  # zones differ by so much, or many times so much
_ZONES_MS: Final = 14 * 3_600_000  # and by no more than this


class Victim(NamedTuple):
    namespace: str
    pod: str
    workload: str | None  # NAMESPACE/NAME


class KnownFault(NamedTuple):
    """A fault of which an agent told, with what it knew of the GPU and who had it."""

    node: str
    t_ms: int
    kind: str
    code: int | None
    pci: PciAddress | None
    pid: int | None
    uuid: str | None
    gpu: int | None
    rank: int | None
    victims: tuple[Victim, ...]


def known_faults(case: CaseFile) -> list[KnownFault]:
    """Those in a bundle."""
    workloads = {
        one.membership.pod.uid: f"{one.membership.workload.namespace}/{one.membership.workload.name}"
        for one in case.members
    }
    return [
        KnownFault(
            one.node,
            one.t_ms,
            one.kind.value,
            one.code,
            PciAddress.parse(one.pci) if one.pci else None,
            one.pid,
            one.uuid,
            one.gpu,
            one.rank,
            tuple(Victim(pod.namespace, pod.name, workloads.get(pod.uid)) for pod in one.victims),
        )
        for one in case.events
        if one.kind is not EventKind.WARNING
    ]


def known_as(seen: Seen, known: Sequence[KnownFault]) -> KnownFault | None:
    """The one that the same line was, or None: a log that names no node must fit the faults of just one."""
    fault = seen.fault
    same = [
        one
        for one in known
        if (one.kind, one.code, one.pci) == (fault.kind.value, fault.code, fault.pci)
        and (not seen.node or one.node == seen.node or one.node.split(".")[0] == seen.node.split(".")[0])
        and one.pid == fault.pid
        and _is_then(seen, one.t_ms)
    ]
    if len({one.node for one in same}) != 1:
        return None
    return min(same, key=lambda one: abs(one.t_ms - seen.t_ms) if seen.t_ms is not None else 0)


def _is_then(seen: Seen, t_ms: int) -> bool:
    if seen.t_ms is None:
        return True
    apart_ms = abs(t_ms - seen.t_ms)
    if seen.has_zone:
        return apart_ms <= _SAME_MS
    beyond_ms = apart_ms % _ZONE_MS
    return apart_ms <= _ZONES_MS and min(beyond_ms, _ZONE_MS - beyond_ms) <= _SAME_MS


def read_answers(told: Sequence[Mapping[str, Any]]) -> list[KnownFault]:
    """What /api/events answers."""
    return [
        KnownFault(
            one["node"],
            one["t_ms"],
            one["kind"],
            one["code"],
            PciAddress.parse(one["pci"]) if one["pci"] else None,
            one["pid"],
            one["uuid"],
            one["gpu"],
            one["rank"],
            tuple(
                Victim(victim["namespace"] or "", victim["pod"] or "", _name(victim["workload"]))
                for victim in one["victims"]
            ),
        )
        for one in told
        if one["kind"] != EventKind.WARNING
    ]


def _name(workload: Mapping[str, Any] | None) -> str | None:
    return f"{workload['namespace']}/{workload['name']}" if workload else None
