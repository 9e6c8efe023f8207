"""Kernel logs judged: the episodes in them, with the GPU, process, pod and workload of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trilens.diagnose.case_file import LogKind
from trilens.diagnose.xid.episodes import Episode, episodes
from trilens.diagnose.xid.explain import explain
from trilens.diagnose.xid.kernel_log import KernelLog, KernelText, Seen, read_kernel_logs
from trilens.diagnose.xid.whose import KnownFault, known_as, known_faults
from trilens.model.event import EventKind
from trilens.model.fault_lines import fatal_in, link_in
from trilens.model.pci import PciAddress
from trilens.model.verdict import Missing
from trilens.model.xid import FaultKind, KernelFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.diagnose.case_file import CaseFile
    from trilens.model.event import EventRecord

    Ask = Callable[[tuple[int, int] | None], tuple[Sequence[KnownFault], Sequence[Missing]]]

_ABOUT_MS: Final = 14 * 3_600_000  # a log's own time may be of any zone


@dataclass(slots=True)
class Judged:
    episode: Episode
    known: dict[int, KnownFault] = field(default_factory=dict)  # by the order of what was seen

    @property
    def whose(self) -> list[KnownFault]:
        """Of the root first."""
        every = [self.episode.root, *(one.seen for one in self.episode.followers)]
        return [self.known[one.order] for one in every if one.order in self.known]


@dataclass(slots=True)
class XidReport:
    judged: list[Judged]
    lines: int
    faults: int
    unreadable: int
    missing: list[Missing]


def judge_kernel_logs(texts: Iterable[KernelText], now_ms: int, ask: Ask | None = None) -> XidReport:
    """`ask` is given the time of the log, None where it has no time of day."""
    log = read_kernel_logs(texts, now_ms)
    known: Sequence[KnownFault] = ()
    if ask is not None and log.seen:
        known, missing = ask(_span(log.seen))
        log.missing.extend(missing)
    return _report(log, known)


def judge_case(case: CaseFile) -> XidReport:
    """By the kernels' logs in it, and by the faults that agents told where there is no log of that node."""
    texts = [KernelText(one.name, one.lines, one.node) for one in case.logs if one.kind is LogKind.KERNEL]
    log = read_kernel_logs(texts, case.to_ms) if texts else KernelLog()
    logged = {one.node for one in texts}
    told = sorted(
        (one for one in case.events if one.kind is not EventKind.WARNING and one.node not in logged),
        key=lambda one: one.t_ms,
    )
    for one in told:
        log.seen.append(_seen(one, len(log.seen)))
    log.faults += len(told)
    log.missing.extend(case.missing)
    if not texts:
        log.missing.append(
            Missing(
                "the kernels' logs themselves", "journalctl -k on the node; the agent tells of faults alone"
            )
        )
    return _report(log, known_faults(case))


def _report(log: KernelLog, known: Sequence[KnownFault]) -> XidReport:
    judged = [Judged(one) for one in episodes(log.seen)]
    for one in judged:
        for seen in (one.episode.root, *(follower.seen for follower in one.episode.followers)):
            if (found := known_as(seen, known)) is not None:
                one.known[seen.order] = found
    alone = [one for one in judged if one.episode.is_alone]
    if alone:
        codes = ", ".join(sorted({str(one.episode.root.fault.code) for one in alone}))
        log.missing.append(
            Missing(
                f"what Xid {codes} follows is not in the log", "hand in the lines before: journalctl -k -b"
            )
        )
    if any(one.episode.blames_peer for one in judged):
        log.missing.append(
            Missing(
                "the other end of a link that was taken down from there", "the kernel's log of that machine"
            )
        )
    return XidReport(judged, log.lines, log.faults, log.unreadable, log.missing)


def _seen(event: EventRecord, order: int) -> Seen:
    fault = KernelFault(
        FaultKind(event.kind.value),
        event.code,
        PciAddress.parse(event.pci) if event.pci else None,
        event.text,
        event.pid,
        event.process,
        link=link_in(event.text),
        fatal=fatal_in(event.text),
    )
    return Seen(
        fault,
        event.node,
        "day",
        event.t_ms,
        event.t_ms,
        True,
        f"agent of {event.node}",
        0,
        event.text,
        order,
        explain(fault),
        last_ms=event.t_ms,
    )


def _span(seen: Sequence[Seen]) -> tuple[int, int] | None:
    times = [one.t_ms for one in seen if one.t_ms is not None]
    return (min(times) - _ABOUT_MS, max(times) + _ABOUT_MS) if times else None
