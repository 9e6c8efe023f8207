"""What came of an import, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.cli.times import show_moment

if TYPE_CHECKING:
    from fractions import Fraction

    from trilens.cli.import_jobs import JobReport, Owned
    from trilens.cli.import_sending import Sent
    from trilens.cli.import_usage import UsageReport
    from trilens.cli.import_values import Clock


def job_sentences(report: JobReport, clock: Clock, owned: Owned, sent: Sent | None) -> list[str]:
    parts = [f"{count:,} {why}" for why, count in sorted(report.left_out.items())]
    if report.bad.count:
        parts.append(f"{report.bad.count:,} bad")
    told = [
        f"{owned.source}: {report.jobs:,} job{'' if report.jobs == 1 else 's'} of {report.rows:,} rows, "
        f"{_hours(report.gpu_ms)} GPU-hours{_span(report.first_ms, report.last_ms)}"
    ]
    if parts:
        told.append(f"not counted: {', '.join(parts)}")
    if report.without_end:
        told.append(
            f"warning: {report.without_end:,} had no end, and count to the table's last time (or --until)"
        )
    return told + _clock_sentences(clock) + _sent_sentences(sent, "jobs")


def usage_sentences(report: UsageReport, clock: Clock, owned: Owned, sent: Sent | None) -> list[str]:
    used = report.utilisation
    told = [
        f"{owned.source}: {report.points:,} rows, {_hours(report.in_use_ms)} GPU-hours in use"
        + (f", {used:.1%} of what was there" if used is not None else "")
        + _span(report.first_ms, report.last_ms)
    ]
    if report.bad.count or report.unknown:
        told.append(f"not counted: {report.bad.count:,} bad, {report.unknown:,} without a number")
    if report.gaps:
        told.append(
            f"warning: {report.gaps:,} gap{'' if report.gaps == 1 else 's'} of "
            f"{report.gap_ms / 3_600_000:,.1f} h together: of these times nothing is known"
        )
    if report.too_many:
        told.append(f"warning: {report.too_many:,} rows have more GPUs in use than there: those in use count")
    return told + _clock_sentences(clock) + _sent_sentences(sent, "rows")


def _clock_sentences(clock: Clock) -> list[str]:
    told = []
    if clock.without_zone and not clock.zone_given:
        told.append(f"{clock.without_zone:,} times tell no zone and were read as UTC (see --timezone)")
    if clock.twice:
        told.append(
            f"warning: {clock.twice:,} times were there twice, as the clock went back: the first counts"
        )
    return told


def _sent_sentences(sent: Sent | None, what: str) -> list[str]:
    if sent is None:
        return ["nothing was sent (--dry-run)"]
    hours = sent.changed_hours
    told = []
    if hours:
        told.append(f"{hours:,} hour{'' if hours == 1 else 's'} of the ledger changed")
    elif sent.rows:
        told.append("it was all there already: nothing changed")
    if sent.expired:
        nothing = "" if sent.rows else "nothing was taken: "
        told.append(
            f"warning: {nothing}{sent.expired:,} {what} are older than the ledger keeps them; raise "
            "storage.retention_ledger"
        )
    return told + [f"warning: {text}" for text in sent.warnings]


def _hours(gpu_ms: Fraction) -> str:
    return f"{float(gpu_ms / 3_600_000):,.1f}"


def _span(first_ms: int | None, last_ms: int | None) -> str:
    if first_ms is None or last_ms is None:
        return ""
    return f", {show_moment(first_ms / 1000)} to {show_moment(last_ms / 1000)}"
