"""The parts' own counts as metrics. The names are a promise to dashboards: docs/api.md lists them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from trilens.collect.appender import ScrapeStats
    from trilens.collect.otlp.stats import OtlpMetricsStats, OtlpTraceStats
    from trilens.collect.remote_write.receiver import WriteStats
    from trilens.collect.runs.intake import RunIntake
    from trilens.serve.money.ledger_keeper import LedgerKeeper
    from trilens.store.store import StoreHealth, StoreSize, StoreStats


def scrape_metrics(stats: ScrapeStats, targets: Mapping[str, int]) -> Iterator[Metric]:
    yield _by("trilens_scrape_targets", "Scrape targets by health.", "health", targets)
    yield _counter("trilens_scrapes", "Scrapes, failed ones too.", stats.scrapes)
    yield _counter("trilens_scrapes_failed", "Scrapes that failed.", stats.failures)
    yield _counter("trilens_scrape_body_bytes", "Bytes scraped, uncompressed.", stats.body_bytes)
    outcomes = {
        "appended": stats.samples_appended,
        "repeated": stats.samples_repeated,
        "duplicate": stats.samples_duplicate,
        "out_of_order": stats.samples_out_of_order,
        "too_old": stats.samples_too_old,
        "too_far_ahead": stats.samples_too_far_ahead,
        "refused": stats.samples_refused,
    }
    yield _counted("trilens_scrape_samples", "Scraped samples by what became of them.", "outcome", outcomes)


def write_metrics(stats: WriteStats) -> Iterator[Metric]:
    yield _counter("trilens_remote_write_requests", "Remote write requests that decoded.", stats.requests)
    outcomes = {
        "appended": stats.samples_appended,
        "repeated": stats.samples_repeated,
        "duplicate": stats.samples_duplicate,
        "out_of_order": stats.samples_out_of_order,
        "too_old": stats.samples_too_old,
    }
    help_text = "Received samples by what became of them."
    yield _counted("trilens_remote_write_samples", help_text, "outcome", outcomes)
    refused = {
        "series": stats.series_refused,
        "histograms": stats.histograms_refused,
        "exemplars": stats.exemplars_dropped,
    }
    yield _counted("trilens_remote_write_refused", "Other things that were not taken.", "kind", refused)


def run_metrics(intake: RunIntake) -> Iterator[Metric]:
    yield gauge("trilens_run_processes_alive", "Processes of runs that live.", intake.alive)
    interval_help = "How often each of them is asked to send."
    yield gauge("trilens_run_records_interval_seconds", interval_help, intake.interval_s)
    waiting_help = "Records of runs that wait to be written."
    yield gauge("trilens_run_records_waiting_bytes", waiting_help, intake.waiting_bytes)
    stats = intake.stats
    outcomes = {
        "taken": stats.taken,
        "repeated": stats.repeated,
        "refused": stats.refused,
        "forbidden": stats.forbidden,
    }
    help_text = "Batches of records of runs by what became of them."
    yield _counted("trilens_run_records_batches", help_text, "outcome", outcomes)
    yield _counter("trilens_run_records_steps", "Steps taken in.", stats.steps)


def ledger_metrics(keeper: LedgerKeeper) -> Iterator[Metric]:
    state = keeper.state
    waiting = {str(reason): float(hours) for reason, hours in keeper.waiting().items()}
    yield _by("trilens_ledger_hours_waiting", "Hours that wait to be computed.", "reason", waiting)
    computed = {str(reason): float(hours) for reason, hours in dict(state.computed).items()}
    yield _counted("trilens_ledger_hours_computed", "Hours computed, by why.", "reason", computed)
    revisions_help = "Hours that were booked already and came out otherwise."
    yield _counter("trilens_ledger_revisions", revisions_help, state.revisions)
    yield _counter("trilens_ledger_failures", "Times that keeping the ledger failed.", state.failures)
    yield gauge("trilens_ledger_troubles", "What does not work now: see /api/ledger.", len(state.troubles))
    if state.upto_ms is not None:
        upto_help = "Until when the open hour is booked; absent before the first time."
        yield gauge("trilens_ledger_upto_timestamp_seconds", upto_help, state.upto_ms / 1000)
    if state.took_s is not None:
        took_help = "How long booking the open hour took the last time."
        yield gauge("trilens_ledger_last_duration_seconds", took_help, state.took_s)


def otlp_metrics(points: OtlpMetricsStats | None, spans: OtlpTraceStats | None) -> Iterator[Metric]:
    """None of a kind that this server does not keep."""
    requests: dict[str, int] = {}
    if points is not None:
        requests["metrics"] = points.requests
        outcomes = {"taken": points.points, "refused": points.points_refused}
        yield _counted("trilens_otlp_data_points", "OTLP data points received.", "outcome", outcomes)
        left_out = points.samples_left_out
        yield _counter("trilens_otlp_samples_left_out", "Samples of these that the store left out.", left_out)
    if spans is not None:
        requests["traces"] = spans.requests
        outcomes = {
            "step": spans.steps,
            "phase": spans.phases,
            "checkpoint": spans.checkpoints,
            "repeated": spans.repeated,
            "not_kept": spans.not_kept,
            "refused": spans.refused,
        }
        help_text = "OTLP spans received, by what they became."
        yield _counted("trilens_otlp_spans", help_text, "outcome", outcomes)
    yield _counted("trilens_otlp_requests", "OTLP requests that decoded.", "signal", requests)


def store_metrics(stats: StoreStats, size: StoreSize | None, health: StoreHealth) -> Iterator[Metric]:
    read_only = float(health.read_only_reason is not None)
    yield gauge("trilens_store_read_only", "1 while writes are refused.", read_only)
    yield gauge("trilens_store_damaged_parts", "Parts found damaged at start.", len(health.damage))
    yield gauge("trilens_store_series", "Series known.", stats.series)
    if size is not None:
        yield gauge("trilens_store_samples", "Raw samples on disk.", size.samples)
        yield gauge("trilens_store_disk_bytes", "Size on disk.", size.disk_bytes)
    yield gauge("trilens_store_pending_samples", "Samples not on disk yet.", stats.pending_samples)
    waiting_help = "For how long the oldest of these has been waiting."
    yield gauge("trilens_store_pending_oldest_seconds", waiting_help, stats.waiting_s)
    yield gauge("trilens_store_recent_bytes", "Memory of the recent window.", stats.recent_bytes)
    if stats.recent_since_ms is not None:
        reach_help = "How far back the recent window answers, for 99 of 100 series."
        reach_s = max(0.0, time.time() - stats.recent_since_ms / 1000)
        yield gauge("trilens_store_recent_reach_seconds", reach_help, reach_s)
    yield gauge("trilens_store_engine_reads", "Reads running in the engine.", stats.engine_reads)
    yield _counter("trilens_store_written_samples", "Samples written to disk.", stats.written_samples)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counted(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
