"""Whether training programs are heard: from the SDK, over OTLP, and by their experiment trackers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trilens.serve.checkup.finding import Finding, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

_LATE: Final = 10  # times the pause between two passes of a tracker, each of which takes a while itself
_LATE_S: Final = 15 * 60.0  # and so long at least


def programs_see(evidence: Evidence) -> str:
    alive = evidence.own("trilens_run_processes_alive")
    return "" if alive is None else f"{many(alive, 'process', 'processes')} of runs alive"


def records(evidence: Evidence) -> Iterator[Finding]:
    if refused := evidence.own("trilens_run_records_batches_total", outcome="refused"):
        what = f"{many(refused, 'batch', 'batches')} of records of runs refused since the start"
        means = "steps of those programs are missing, or come late"
        remedy = "see the server's log; programs of a newer SDK need a newer server"
        yield Finding("records", False, what, means, remedy)
    if forbidden := evidence.own("trilens_run_records_batches_total", outcome="forbidden"):
        what = f"{many(forbidden, 'request')} with records of runs came with a token for another cluster"
        means = "those programs are not seen; their records wait with them"
        remedy = "see TRILENS_CLUSTER there, and for which clusters its token is: trilens token list"
        yield Finding("records", False, what, means, remedy)


def traces_out(evidence: Evidence) -> Iterator[Finding]:
    if failures := evidence.own("trilens_otlp_export_failures_total"):
        what = f"otlp.url did not answer well {many(failures, 'time')} since the start"
        waiting = evidence.own("trilens_otlp_export_waiting") or 0
        means = f"traces of steps come late there, or are lost; {waiting:,.0f} wait now"
        yield Finding("traces_out", False, what, means, "see otlp.url and that collector")


def trackers_see(evidence: Evidence) -> str:
    return many(len(evidence.trackers), "tracker") if evidence.trackers else "none is followed"


def trackers(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.trackers:
        place = f"{one['system']} {one['where']}"
        if one["trouble"]:
            remedy = f"see the settings of {one['system']}, and docs/trackers.md"
            yield Finding("trackers", True, f"{place}: {one['trouble']}", "its runs are not read", remedy)
        elif late_s := _late_s(one):
            what = f"{place}: last read through {many(late_s // 60, 'minute')} ago"
            remedy = "it answers slowly, or has much to tell: name fewer experiments, projects or folders"
            yield Finding("trackers", False, what, "its runs are known as they were then", remedy)
        if one["refused"]:  # the last time: the next may have gone well
            means = "GPU-hours and utilisation were not taken there"
            yield Finding("trackers", False, f"{place}: {one['refused']}", means, "see who may write there")


def _late_s(tracker: dict[str, Any]) -> float:
    """Since when a pass goes on that should be over; 0 where that is not long, or the first goes on."""
    if tracker["passed_ms"] is None:
        return 0.0
    since_s = time.time() - tracker["passed_ms"] / 1000
    return since_s if since_s > max(_LATE * tracker["every_s"], _LATE_S) else 0.0
