"""The figures as a table for people: bench/RESULTS.md."""

from __future__ import annotations

import math
import platform
import re
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.ledger import A_DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.cluster import ClusterResult
    from bench.disk import DiskResult
    from bench.intake import IntakeResult
    from bench.latency import QueryResult
    from bench.ledger import LedgerResult
    from bench.one_round import RoundResult
    from bench.rules import RulesResult
    from bench.runs import LineageResult, RunIntakeResult
    from bench.sdk_step import SdkResult
    from bench.why import WhyResult

RESULTS = Path(__file__).parent / "RESULTS.md"


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = psutil.virtual_memory().total / 2**30
    return f"{psutil.cpu_count()} cores ({model}), {memory:.0f} GiB, Python {platform.python_version()}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def intake(results: list[IntakeResult]) -> str:
    rows = [
        (
            r.server,
            f"{r.series:,}",
            f"{r.cores:.2f}",
            f"{r.cpu_s_per_million:.2f}",
            f"{r.rss_mb:,.0f}",
        )
        for r in results
    ]
    return "## Intake\n\n" + table(
        ("server", "series every 15 s", "cores", "CPU s per million samples", "peak memory MB"), rows
    )


def disk(results: list[DiskResult]) -> str:
    rows = [(r.server, f"{r.samples:,}", f"{r.megabytes:,.0f}", f"{r.bytes_per_sample:.2f}") for r in results]
    return "## Disk\n\n" + table(("server", "samples", "MB", "bytes a sample"), rows)


def start(results: list[tuple[str, float, float]]) -> str:
    rows = [(name, f"{empty:.2f}", f"{full:.2f}") for name, empty, full in results]
    return "## Start\n\n" + table(("server", "ready on an empty directory, s", "on the data set, s"), rows)


def kubernetes(found: ClusterResult) -> str:
    median, slow, slowest = (found.seen_s[int(share * (len(found.seen_s) - 1))] for share in (0.5, 0.95, 1.0))
    sync = f"{found.sync_s:.1f} s, {found.ready_s:.1f} until it answers ({found.sync_cpu_s:.1f} s of CPU)"
    ready, end = found.ready, found.end
    rows = [
        ("first sync, from the start of the process", sync, "10 s"),
        ("the first minute after it, in which series are made", f"{found.first_cores:.3f} cores", ""),
        (f"then, following {found.changes_a_second:.0f} changes a second", f"{found.cores:.3f} cores", "0.1"),
        (
            "a new pod in the answers: median / 95 % / slowest",
            f"{median:.2f} / {slow:.2f} / {slowest:.2f} s",
            "1 s",
        ),
        (
            "memory: when it first answers / at the end / peak",
            f"{ready.rss_mb:.0f} / {end.rss_mb:.0f} / {found.peak_mb:.0f} MB",
            "500 MB",
        ),
        (
            "of that, pages of library files, which the system may take back",
            f"{ready.file_mb:.0f} / {end.file_mb:.0f} MB",
            "",
        ),
    ]
    size = f"{found.gpus:,} GPUs on {found.nodes:,} nodes with {found.pods:,} pods"
    return f"## Kubernetes\n\n{size}; the last column is the goal.\n\n" + table(
        ("what", "Trilens", "goal: at most"), rows
    )


def rules(results: list[RulesResult]) -> str:
    rows = [(r.server, f"{r.gpus:,}", f"{r.recorded:,}", f"{r.cpu_s:.2f}", f"{r.cores:.3f}") for r in results]
    head = ("server", "GPUs", "series recorded a pass", "CPU s a pass", "cores at the pack's interval")
    goal = "The pack of GPU rules with its joins, every 30 s. Goal: at most 0.25 cores."
    return f"## Rules\n\n{goal}\n\n" + table(head, rows)


def runs(taken: RunIntakeResult, asked: LineageResult) -> str:
    times = taken.answered_s
    median, slow, slowest = (times[int(share * (len(times) - 1))] for share in (0.5, 0.95, 1.0))
    rows = [
        (f"{taken.ranks:,} ranks at 2 steps a second, on one core", f"{taken.cores:.2f} cores", "1"),
        ("answered, on disk: median / 95 % / slowest", f"{median:.2f} / {slow:.2f} / {slowest:.2f} s", ""),
        ("steps sent / kept", f"{taken.made:,} / {taken.kept:,}", "the same"),
        ("asked to send every", f"{taken.interval_s:.1f} s", ""),
        ("memory", f"{taken.rss_mb:.0f} MB", ""),
    ]
    answers = [
        (what, f"{asked.cold_s[what]:.3f}", f"{asked.warm_s[what]:.3f}", "1 s") for what in asked.cold_s
    ]
    size = asked.disk_mb * 1e6 / asked.records
    return "\n\n".join(
        [
            "## Runs",
            table(("step records taken in", "Trilens", "goal: at most"), rows),
            f"Lineage over {asked.records:,} step records, {asked.disk_mb:,.0f} MB on disk, {size:.0f} bytes "
            "each with its batch and its samples:",
            table(("question, through the API", "first, s", "then, s", "goal: at most"), answers),
        ]
    )


def ledger(found: LedgerResult) -> str:
    booked = [
        (
            f"{one.gpus:,}",
            f"{one.workloads:,}",
            f"{one.step_records / 1e6:.1f} million",
            f"{one.rows:,}",
            f"**{one.cpu_s:.1f}** ({one.wall_s:.1f})",
            f"{one.facts_s:.1f} / {one.signals_s:.1f} / {one.allocating_s:.1f} / {one.writing_s:.1f}",
            f"{1e3 * one.cpu_s / one.gpus:.2f}",
            f"{one.memory_mb:,.0f}",
            f"{one.mismatches} of {one.node_hours:,}",
        )
        for one in found.days
    ]
    head = (
        "GPUs",
        "workloads",
        "step records",
        "rows",
        "CPU s (wall)",
        "facts / signals / allocating / writing",
        "CPU ms a GPU",
        "peak MB",
        "node-hours that do not add up",
    )
    month = found.month
    goals = {"cost by team and bucket": "0.3 s"}
    asked = [
        (
            what,
            f"{month.cold_s[what]:.3f}",
            f"{month.warm_s[what]:.3f}",
            f"{month.cpu_s[what]:.3f}",
            goals.get(what, ""),
        )
        for what in month.cold_s
    ]
    peer = found.peer
    ratio = month.warm_s[A_DAY] / peer.then_s
    last = found.days[-1]
    return "\n\n".join(
        [
            "## Ledger",
            "A day booked hour by hour on one core, from what is on disk to rows on disk. Goal: at most 30 s "
            "for 10,000 GPUs, growing linearly. Telemetry of all GPUs, of the largest fleet "
            f"{last.samples / 1e6:.0f} million samples, is read by PromQL from the same store.",
            table(head, booked),
            f"A month of the largest: {month.rows / 1e6:.1f} million rows of hours, and of days "
            f"{month.day_rows / 1e6:.2f} million over two months: answers compare with the month before. "
            f"{month.mismatches} of {month.node_hours:,} node-hours do not add up.",
            table(("question, through the API", "first, s", "then, s", "CPU, s", "goal: at most"), asked),
            "The peer: requested GPUs x price by namespace, as OpenCost has it, in PromQL over Prometheus, "
            f"{peer.samples / 1e6:.1f} million samples of that day: {peer.first_s:.3f} s, then "
            f"{peer.then_s:.3f} s. Trilens to it, for {A_DAY}: **{ratio:.2f}**.",
        ]
    )


def sdk(found: SdkResult) -> str:
    cost = {one.name: one for one in found.costs}
    bare, own = cost["bare loop"], cost["Trilens"]
    rows = [
        (
            one.name,
            f"{one.burst_us:.1f}",
            f"{one.cpu_us - bare.cpu_us:.1f}",
            f"{one.median_us:.1f} / {one.mean_us:.1f}",
            f"{own.burst_us / one.burst_us:.3f} / {own.median_us / one.median_us:.3f}",
        )
        for one in found.costs
        if one is not bare
    ]
    head = (
        "with",
        "in bursts: us a step",
        "CPU us with all threads",
        "beside work: median / mean us",
        "Trilens to it",
    )
    goals = [
        ("`import trilens`", f"{found.import_ms:.1f} ms", "50 ms"),
        ("`import trilens; trilens.init`", f"{found.import_init_ms:.1f} ms", "50 ms"),
        ("the same, and a run begun", f"{found.first_run_ms:.1f} ms", ""),
        ("memory, after 100,000 steps", f"{found.memory_mb:.1f} MB", "20 MB"),
        ("steps lost meanwhile", f"{found.memory_steps_lost}", "0"),
    ]
    what = (
        "A step with three phases and one log of four values, each in a process of its own: in bursts; "
        "and with about a millisecond of other work between steps, which leaves caches cold. Goals: at "
        "most 10 us, a tenth of `wandb.log` (offline) and of `mlflow.log_metrics` (SQLite), and no more than "
        "prometheus-client by hand."
    )
    return f"## SDK\n\n{what}\n\n{table(head, rows)}\n\n" + table(("what", "Trilens", "goal: at most"), goals)


def verdicts(found: WhyResult) -> str:
    rows = [
        ("**verdict on a bundle**: read and walked", f"{found.verdict_s:.2f} s", "5 s"),
        ("read", f"{found.read_s:.2f} s", ""),
        ("walked", f"{found.walked_s:.2f} s", ""),
        ("gathered from the store", f"{found.gathered_s:.2f} s", ""),
        ("secrets taken out", f"{found.cleaned_s:.2f} s", ""),
        ("names masked", f"{found.masked_s:.2f} s", ""),
        (f"written: {found.megabytes:.1f} MB", f"{found.written_s:.2f} s", ""),
        ("what it comes to", ", ".join(found.causes[:2]), ""),
    ]
    what = (
        f"A job of {found.ranks} ranks of which one has left and the others wait: 500 steps, 500 lines of "
        "log, stacks and notes of each."
    )
    return f"## Why\n\n{what}\n\n" + table(("what", "Trilens", "goal: at most"), rows)


def round_of_all(found: RoundResult) -> str:
    parts = found.by_part
    of_detectors = {part: took_s for part, took_s in parts.items() if part.startswith("detector ")}
    of_rules = {part: took_s for part, took_s in parts.items() if part.startswith("rules: ")}
    rows = [
        ("**one round**: median / worst, wall", f"{found.wall_s:.2f} / {found.worst_s:.2f} s", "5 s"),
        ("CPU, with what is written behind it", f"{found.cpu_s:.2f} s", ""),
        ("steps of 5 s taken in for detectors", f"{parts['steps taken in']:.2f} s", ""),
        ("the scene made", f"{parts['scene']:.2f} s", ""),
        (
            f"{len(of_detectors)} detectors; most: {_dearest(of_detectors)}",
            f"{found.detectors_s + parts['watch'] + parts['findings told']:.2f} s",
            "",
        ),
        (f"{len(of_rules)} groups of rules; most: {_dearest(of_rules)}", f"{found.rules_s:.2f} s", ""),
        ("memory, peak", f"{found.memory_mb:,.0f} MB", ""),
    ]
    size = (
        f"{found.gpus:,} GPUs in {found.jobs:,} jobs, {found.ranks_that_tell:,} ranks that tell of their "
        f"steps, {found.series:,} series. All {found.recording_rules + found.alerting_rules} rules of the "
        f"pack ({found.files} files, {found.groups} groups; {found.alerting_rules} of the rules alert): "
        f"{found.recorded:,} series recorded, {found.firing:,} alerts that fire and {found.pending:,} that "
        f"are pending; {found.findings} findings, {found.failures} failures. One process on one core."
    )
    told = ["## One round of rules and detectors", size, table(("what", "Trilens", "goal: at most"), rows)]
    if found.peer is not None:
        peer = found.peer
        told.append(
            f"The peer: the same files in a Prometheus with the same series, {peer.recorded:,} recorded and "
            f"{peer.firing:,} alerts: {peer.cpu_s:.1f} s of CPU a pass. The rules of Trilens to it: "
            f"**{found.rules_s / peer.cpu_s:.2f}**."
        )
    return "\n\n".join(told)


def _dearest(parts: Mapping[str, float]) -> str:
    most = sorted(parts.items(), key=lambda one: -one[1])[:3]
    return ", ".join(f"{part.split(' ', 1)[1]} {took_s:.2f} s" for part, took_s in most)


def queries(results: list[QueryResult]) -> str:
    def ratio(r: QueryResult, peer: str) -> float:
        return r.median_ms["Trilens"] / r.median_ms[peer]

    rows = [
        (
            r.query.name,
            f"`{r.query.expr}`".replace("|", "\\|"),
            "instant" if not r.query.range_s else f"{r.query.range_s // 3600} h / {r.query.step_s} s",
            *(f"{r.median_ms[p]:.1f}" for p in ("Prometheus", "VictoriaMetrics", "Trilens")),
            f"{ratio(r, 'Prometheus'):.2f}",
            f"{ratio(r, 'VictoriaMetrics'):.2f}",
        )
        for r in results
    ]
    means = {p: geometric_mean(ratio(r, p) for r in results) for p in ("Prometheus", "VictoriaMetrics")}
    worse = [
        r.query.name for r in results if r.median_ms["Trilens"] > max(6.0, 2 * r.median_ms["Prometheus"])
    ]
    head = ("query", "PromQL", "range / step", "Prometheus ms", "VictoriaMetrics ms", "Trilens ms")
    return "\n".join(
        [
            "## Queries\n",
            table((*head, "to Prometheus", "to VictoriaMetrics"), rows),
            "",
            f"Geometric mean of Trilens to Prometheus **{means['Prometheus']:.2f}**, "
            f"to VictoriaMetrics **{means['VictoriaMetrics']:.2f}**, over {len(results)} queries. "
            f"Slower than twice Prometheus and than 6 ms: {', '.join(worse) or 'none'}.",
        ]
    )


def header(command: str, versions: str) -> str:
    return (
        "# Benchmark results\n\n"
        f"`{command.strip()}` on {datetime.now(UTC):%Y-%m-%d}, {machine()}.\n{versions}\n\n"
        "All servers ran on this machine in this run, on the same data. Medians; smaller is better.\n"
    )


def cordon(took_s: Sequence[float]) -> str:
    rows = [
        (
            "**from the kernel's line to a node that is closed**: median",
            f"{statistics.median(took_s):.2f} s",
            "20 s",
        ),
        ("worst", f"{max(took_s):.2f} s", "20 s"),
    ]
    return "\n".join(
        [
            "## From a fault to a closed node",
            "",
            f"{len(took_s)} Xids 79 in a node's kernel log, at times of their own; an agent, a server whose "
            "policy approves that code beforehand, and a Kubernetes API server.",
            "",
            table(("what", "Trilens", "goal: at most"), rows),
        ]
    )


def merged(before: str, sections: Iterable[str], head: str | None = None) -> str:
    """Each section takes the place of the one that has its title; the others stay, and so do the notes' place
    at the end. `head` is what stands before the first, where that is new too."""
    old_head, *old = re.split(r"^(?=## )", before, flags=re.MULTILINE)
    notes = (RESULTS.parent / "NOTES.md").read_text()
    kept = {_title(section): section for section in old if _title(section) != _title(notes)}
    kept |= {_title(section): section for section in sections}
    return "\n\n".join(part.strip() for part in (head or old_head, *kept.values(), notes)) + "\n"


def _title(section: str) -> str:
    return section.partition("\n")[0]
