"""Faults upon which a node is closed, whoever told of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.model.event import EventKind
from trilens.model.finding import FindingKind
from trilens.model.fix import fix_id
from trilens.model.xid import XIDS, Cordon

if TYPE_CHECKING:
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval


class NodeFault(NamedTuple):
    """One that closes a node."""

    id: str  # of its answer
    cluster: str  # "" where nobody told it
    node: str
    code: int  # an Xid
    t_ms: int
    why: str
    source: str

    @property
    def name(self) -> str:
        """Its class, as a policy writes it."""
        return f"xid-{self.code}"


def closes_node(code: int | None) -> bool:
    """Whether an Xid is a reason to cordon: never one that a program's fault may be, nor an unknown one."""
    meaning = XIDS.get(code) if code is not None else None
    return meaning is not None and meaning.cordon is not Cordon.NO


def xid_reason(code: int, node: str, text: str) -> str:
    return f"Xid {code} on {node}: {XIDS[code].title} ({text})"


def fault_told(event: EventRecord) -> NodeFault | None:
    """Of a kernel's log."""
    if event.kind is not EventKind.XID or event.code is None or not closes_node(event.code):
        return None
    named = [one for one in (event.cluster, event.node, event.id) if one]
    why = xid_reason(event.code, event.node, event.text)
    id, source = fix_id("event", *named), f"event {'/'.join(named)}"
    return NodeFault(id, event.cluster, event.node, event.code, event.t_ms, why, source)


def fault_found(interval: FindingInterval) -> NodeFault | None:
    """By a detector, in DCGM's gauge."""
    finding, node = interval.finding, interval.finding.subject.node
    kind, _, code = finding.cause.partition("-")
    is_xid = finding.kind is FindingKind.GPU_FAULT and kind == "xid" and code.isdecimal()
    if not is_xid or not node or not closes_node(int(code)):
        return None
    id = fix_id("finding", interval.key.id, finding.onset_ms)
    cluster, source = finding.subject.cluster or "", f"finding {interval.key.id}"
    return NodeFault(id, cluster, node, int(code), finding.onset_ms, finding.text, source)
