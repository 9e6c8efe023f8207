"""What a preflight found, and what of it is slow."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.distributed.preflight.baseline import SLOWER_SHARE, Baseline
from trilens.sdk.distributed.preflight.checks import MOST_CLOCK_US, Finding, Level, check_facts
from trilens.sdk.distributed.preflight.slow import slow_ends, slow_links, slow_ones

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.sdk.distributed.clock import ClockOffset
    from trilens.sdk.distributed.preflight.facts import RankFacts
    from trilens.sdk.distributed.preflight.measure import AllReduce, Link

SCHEMA: Final = "trilens.preflight/1"


@dataclass(frozen=True, slots=True)
class RankResult:
    """What one rank tells rank 0."""

    facts: RankFacts
    clock: ClockOffset | None  # against rank 0's
    flops_per_s: float | None
    links: tuple[Link, ...]  # of which it is the lower end
    baseline: Baseline  # what its machine remembers of earlier times


@dataclass(frozen=True, slots=True)
class NodeResult:
    node: str
    ranks: tuple[int, ...]
    flops_per_s: float | None = None  # of its slowest rank
    link_bytes_per_s: float | None = None  # its best link: to another node, or between two of its ranks


@dataclass(frozen=True, slots=True)
class Report:
    t_ms: int
    world_size: int
    backend: str
    device: str  # the GPU's model, or cpu
    nodes: tuple[NodeResult, ...]
    all_reduce: tuple[AllReduce, ...]
    links: tuple[Link, ...]
    links_left_out: int  # for want of time
    results: tuple[RankResult, ...]
    findings: tuple[Finding, ...] = field(default=())

    @property
    def holds(self) -> bool:
        return not any(finding.level is Level.FAIL for finding in self.findings)

    @property
    def bus_bytes_per_s(self) -> float | None:
        return max((one.bus_bytes_per_s for one in self.all_reduce), default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "holds": self.holds,
            "bus_bytes_per_s": self.bus_bytes_per_s,
            **{one.name: _plain(getattr(self, one.name)) for one in dataclasses.fields(self)},
        }


def node_results(results: Sequence[RankResult]) -> tuple[NodeResult, ...]:
    ranks: dict[str, list[RankResult]] = {}
    for one in results:
        ranks.setdefault(one.facts.node, []).append(one)
    best: dict[int, float] = {}
    for link in (link for one in results for link in one.links):
        for end in (link.a, link.b):
            best[end] = max(link.bytes_per_s, best.get(end, 0.0))
    return tuple(
        NodeResult(
            node,
            tuple(one.facts.rank for one in members),
            min((one.flops_per_s for one in members if one.flops_per_s is not None), default=None),
            max((best[one.facts.rank] for one in members if one.facts.rank in best), default=None),
        )
        for node, members in ranks.items()
    )


def judge(report: Report, *, compare: bool) -> tuple[Finding, ...]:
    results = report.results
    found = check_facts([one.facts for one in results])
    found += _clocks(results)
    found += _slow_ranks(results)
    found += _slow_reach(report)
    if compare:
        found += _slower_than_before(report)
    return tuple(sorted(found, key=lambda finding: finding.level is not Level.FAIL))


def _clocks(results: Sequence[RankResult]) -> list[Finding]:
    return [
        Finding(
            "clock",
            Level.WARN,
            f"the clock is {abs(one.clock.offset_us) / 1e6:.3f} s"
            f" {'behind' if one.clock.offset_us > 0 else 'ahead of'} rank 0's",
            (one.facts.rank,),
            (one.facts.node,),
        )
        for one in results
        if one.clock is not None and abs(one.clock.offset_us) - one.clock.uncertainty_us > MOST_CLOCK_US
    ]


def _slow_ranks(results: Sequence[RankResult]) -> list[Finding]:
    nodes = {one.facts.rank: one.facts.node for one in results}
    speeds = {one.facts.rank: one.flops_per_s for one in results if one.flops_per_s is not None}
    return [
        Finding(
            "compute", Level.FAIL, f"computes at {share:.0%} of the others' speed", (rank,), (nodes[rank],)
        )
        for rank, share in slow_ones(speeds).items()
    ]


def _slow_reach(report: Report) -> list[Finding]:
    """By node where there are several: a node's ranks share its way out."""
    nodes = {one.facts.rank: one.facts.node for one in report.results}
    links = {(link.a, link.b): link.bytes_per_s for link in report.links}
    found = []
    if len(report.nodes) > 1:
        between: dict[tuple[str, str], float] = {}
        for (a, b), speed in links.items():
            ends = (min(nodes[a], nodes[b]), max(nodes[a], nodes[b]))
            between[ends] = between.get(ends, 0.0) + speed
        for node, share in slow_ends(between).items():
            ranks = tuple(rank for rank, place in nodes.items() if place == node)
            text = f"reaches every other node at no more than {share:.0%} of the usual speed"
            found.append(Finding("link", Level.FAIL, text, ranks, (node,)))
        for (one, other), share in slow_links(between).items():
            text = f"{one} and {other} reach each other at {share:.0%} of the usual speed"
            found.append(Finding("link", Level.FAIL, text, (), (one, other)))
        return found
    for rank, share in slow_ends(links).items():
        text = f"reaches every other rank at no more than {share:.0%} of the usual speed"
        found.append(Finding("link", Level.FAIL, text, (rank,), (nodes[rank],)))
    for (a, b), share in slow_links(links).items():
        text = f"ranks {a} and {b} reach each other at {share:.0%} of the usual speed"
        found.append(Finding("link", Level.FAIL, text, (a, b), (nodes[a],)))
    return found


def _slower_than_before(report: Report) -> list[Finding]:
    told = {one.facts.node: one.baseline for one in report.results if one.facts.local_rank == 0}
    found = []
    for node in report.nodes:
        before = told.get(node.node, Baseline())
        for what, now, then in (
            ("computes", node.flops_per_s, before.flops_per_s),
            ("reaches others", node.link_bytes_per_s, before.link_bytes_per_s),
        ):
            if now is not None and then is not None and now < SLOWER_SHARE * then:
                text = f"{what} at {now / then:.0%} of its speed in earlier preflights"
                found.append(Finding("baseline", Level.FAIL, text, node.ranks, (node.node,)))
    whole = next((one.baseline for one in report.results if one.facts.rank == 0), Baseline())
    now, then = report.bus_bytes_per_s, whole.bus_bytes_per_s
    if now is not None and then is not None and now < SLOWER_SHARE * then:
        text = f"the all-reduce over {report.world_size} ranks runs at {now / then:.0%} of its speed before"
        found.append(Finding("baseline", Level.FAIL, text))
    return found


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    return value


def summary_of(report: Report) -> Mapping[str, Any]:
    """What a machine remembers of a preflight."""
    return {
        "t_ms": report.t_ms,
        "world_size": report.world_size,
        "backend": report.backend,
        "device": report.device,
        "bus_bytes_per_s": report.bus_bytes_per_s,
        "nodes": [_plain(node) for node in report.nodes],
    }
