"""Codes and reports as JSON has them: what the text shows, under names that do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.diagnose.xid.explain import documented, explain
from trilens.diagnose.xid.sxid import sxid
from trilens.diagnose.xid.vendors import disagree, followed, opinions
from trilens.model.nvlink import nvlink_errors
from trilens.model.xid import XIDS, FaultKind, KernelFault, cordon_for

if TYPE_CHECKING:
    from trilens.diagnose.xid.kernel_log import Seen
    from trilens.diagnose.xid.report import Judged, XidReport
    from trilens.model.nvlink import NvlinkError


def code_object(code: int, *, is_sxid: bool) -> dict[str, Any]:
    fault = KernelFault(FaultKind.SXID if is_sxid else FaultKind.XID, code, None, "")
    told = explain(fault)
    known = XIDS.get(code) if not is_sxid else None
    of_switch = sxid(code) if is_sxid else None
    near = documented(code)
    chosen = followed(code) if not is_sxid else None
    return {
        "kind": fault.kind.value,
        "code": code,
        "known": known is not None or of_switch is not None,
        "documented": told.is_documented,
        "name": known.name if known else of_switch.unit if of_switch else None,
        "title": told.title,
        "means": told.means,
        "fault": told.fault.value,
        "asks": told.asks.value,
        "now": told.now,
        "later": told.later,
        "cordon": cordon_for(told.asks).value,
        "follows": sorted(known.follows) if known else [],
        "follows_any": known.follows_any if known else False,
        "follows_sxids": known.follows_sxids if known else False,
        "vendors": [one._asdict() for one in opinions(code)] if not is_sxid else [],
        "disagree": disagree(code) if not is_sxid else False,
        "followed": chosen._asdict() if chosen else None,
        "sub_codes": [_sub(one) for one in nvlink_errors() if one.xid == code] if not is_sxid else [],
        "nearest": list(near.nearest),
        "ranges": {"xid": list(near.xids), "sxid": list(near.sxids)},
    }


def report_object(report: XidReport) -> dict[str, Any]:
    return {
        "episodes": [_episode(one) for one in report.judged],
        "lines": report.lines,
        "faults": report.faults,
        "unreadable": report.unreadable,
        "missing": [one._asdict() for one in report.missing],
    }


def _episode(judged: Judged) -> dict[str, Any]:
    episode = judged.episode
    deciding = episode.deciding.explained
    victims = [victim for one in judged.whose for victim in one.victims]
    return {
        "root": _seen(judged, episode.root),
        "is_root_known": not episode.is_alone,
        "follows": [{**_seen(judged, one.seen), "confidence": one.confidence} for one in episode.followers],
        "fault": episode.root.explained.fault.value,
        "asks": episode.asks.value,
        "cordon": episode.cordon.value,
        "now": deciding.now,
        "later": deciding.later,
        "confidence": episode.confidence,
        "pods": sorted({f"{one.namespace}/{one.pod}" for one in victims if one.pod}),
        "workloads": sorted({one.workload for one in victims if one.workload}),
    }


def _seen(judged: Judged, seen: Seen) -> dict[str, Any]:
    fault, told = seen.fault, seen.explained
    known = judged.known.get(seen.order)
    return {
        "kind": fault.kind.value,
        "code": fault.code,
        "title": told.title,
        "asks": told.asks.value,
        "node": seen.node or (known.node if known else None),
        "pci": str(fault.pci) if fault.pci else None,
        "uuid": seen.board.uuid if seen.board else known.uuid if known else None,
        "serial": (seen.board.serial or None) if seen.board else None,
        "gpu": known.gpu if known else None,
        "rank": known.rank if known else None,
        "gpu_instance": fault.gpu_instance,
        "switch": fault.switch,
        "link": fault.link,
        "pid": fault.pid,
        "process": fault.process,
        "sub_code": _sub_of(seen),
        "t_ms": seen.t_ms,
        "times": seen.times,
        "file": seen.file,
        "line_number": seen.number or None,
        "line": seen.line,
    }


def _sub_of(seen: Seen) -> dict[str, Any] | None:
    sub = seen.explained.sub
    if sub is None:
        return None
    return {
        "unit": sub.unit,
        "fatal": sub.is_fatal,
        "status": None if sub.status is None else f"{sub.status:#010x}",
        "reason": sub.reason,
        "documented": bool(sub.errors),
        "errors": [_sub(one) for one in sub.errors],
    }


def _sub(error: NvlinkError) -> dict[str, Any]:
    return {
        "unit": error.unit,
        "about": error.about,
        "status": f"{error.status:#010x}",
        "reason": error.reason,
        "by": error.by,
        "severity": error.severity,
        "asks": error.asks.value,
        "then": error.then.value if error.then else None,
        "later": error.later,
        "local": list(error.here),
        "remote": list(error.there),
    }
