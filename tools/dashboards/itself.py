"""Trilens itself: whether it keeps all that comes in, has room, is in time, and tells people."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models import units

from tools.dashboards.board import Board, Chosen, Section, link
from tools.dashboards.panels import Levels, Line, chart, listing, number

_I: Final = 'job="trilens", instance=~"$instance"'
_RATE: Final = "[$__rate_interval]"

_NOW: Final = Section(
    "Now",
    (
        number(
            "Takes nothing in",
            f"max(trilens_store_read_only{{{_I}}})",
            units.BoolYesNo,
            "Yes while writes are refused: the disk is full, or broken.",
            Levels(1, 1),
        ),
        number(
            "Disk free",
            f"min(trilens_disk_free_bytes{{{_I}}} / trilens_disk_size_bytes{{{_I}}})",
            units.PercentUnit,
            "Of the file system of storage.data_dir.",
            Levels(0.2, 0.05),
        ),
        number(
            "Days until it is full",
            "min(trilens:disk_left:days)",
            units.Days,
            "At the growth of the last six hours; empty while it does not grow.",
            Levels(14, 7),
            decimals=0,
        ),
        number(
            "Memory",
            f"max(process_resident_memory_bytes{{{_I}}}"
            f" / on (job, instance) trilens_memory_limit_bytes{{{_I}}})",
            units.PercentUnit,
            "Of what the process may have.",
            Levels(0.8, 0.9),
        ),
        number(
            "Own alerts",
            'count(ALERTS{layer="trilens", alertstate="firing", severity!="none"}) or vector(0)',
            units.Short,
            "About Trilens itself. What each means: docs/self-monitoring.md.",
            Levels(1, 1),
        ),
        number(
            "Last look for trouble",
            f"time() - max(trilens_detection_last_look_timestamp_seconds{{{_I}}})",
            units.Seconds,
            "Ago. It should look every 5 seconds; what is kept of it is told every 15.",
            Levels(60, 120),
        ),
    ),
)

_INTAKE: Final = Section(
    "What comes in",
    (
        chart(
            "Samples",
            [
                Line(
                    f"sum by (outcome) (rate(trilens_scrape_samples_total{{{_I}}}{_RATE}))",
                    "scraped, {{outcome}}",
                ),
                Line(
                    f"sum by (outcome) (rate(trilens_remote_write_samples_total{{{_I}}}{_RATE}))",
                    "remote write, {{outcome}}",
                ),
            ],
            units.CountsPerSecond,
            "A second, by what became of them.",
        ),
        chart(
            "Refused",
            [Line("sum by (intake) (trilens:intake_refused:per_second)", "{{intake}}")],
            units.CountsPerSecond,
            "Not taken, a second. It should be none.",
        ),
        chart(
            "Scrapes that fail",
            [
                Line(
                    f"sum(rate(trilens_scrapes_failed_total{{{_I}}}{_RATE}))"
                    f" / sum(rate(trilens_scrapes_total{{{_I}}}{_RATE}))",
                    "of all scrapes",
                )
            ],
            units.PercentUnit,
            "`trilens doctor` groups them by their error.",
            levels=Levels(0.05, 0.2),
        ),
        chart(
            "Targets",
            [Line(f"sum by (health) (trilens_scrape_targets{{{_I}}})", "{{health}}")],
            units.Short,
            "What is scraped, by health.",
            stacked=True,
        ),
        chart(
            "Not followed of clusters",
            [Line(f"sum by (cluster) (trilens_cluster_troubles{{{_I}}})", "{{cluster}}")],
            units.Short,
            "What cannot be followed now; /readyz says why. It should be nothing.",
        ),
        chart(
            "Since clusters were heard",
            [
                Line(
                    f"time() - max by (cluster) (trilens_cluster_heard_timestamp_seconds{{{_I}}})",
                    "{{cluster}}",
                )
            ],
            units.Seconds,
            "How long ago the API server said something.",
        ),
        chart(
            "Agents",
            [Line(f"sum by (state) (trilens_agents{{{_I}}})", "{{state}}")],
            units.Short,
            "By whether they answer.",
            stacked=True,
        ),
    ),
)

_STORE: Final = Section(
    "The store",
    (
        chart(
            "On disk",
            [
                Line(f"sum(trilens_store_disk_bytes{{{_I}}})", "of Trilens"),
                Line(f"sum(trilens_disk_free_bytes{{{_I}}})", "free"),
            ],
            units.BytesIEC,
            "What the store takes, and the room that is left.",
        ),
        chart(
            "Series",
            [Line(f"sum(trilens_store_series{{{_I}}})", "known")],
            units.Short,
            "Each takes 1 to 1.5 kB of memory. A jump is a label that grows without end.",
        ),
        chart(
            "Waiting to be written",
            [Line(f"max(trilens_store_pending_oldest_seconds{{{_I}}})", "the oldest")],
            units.Seconds,
            "Some seconds are normal: samples are written together.",
            levels=Levels(30, 60),
        ),
        chart(
            "Until something is kept",
            [Line("max by (host) (trilens:disk_sync:seconds)", "disk {{host}}")],
            units.Seconds,
            "The disk, in the mean of ten minutes. A solid one takes a millisecond or two.",
            levels=Levels(0.01, 0.03),
        ),
        chart(
            "Memory of the process",
            [
                Line(f"sum(process_resident_memory_bytes{{{_I}}})", "taken"),
                Line(f"sum(trilens_memory_limit_bytes{{{_I}}})", "it may take"),
                Line(f"sum(trilens_store_recent_bytes{{{_I}}})", "recent window"),
            ],
            units.BytesIEC,
            "Flat after the first day, or something leaks.",
        ),
    ),
)

_WORK: Final = Section(
    "In time",
    (
        chart(
            "Requests by status",
            [Line(f"sum by (code) (rate(trilens_http_requests_total{{{_I}}}{_RATE}))", "{{code}}")],
            units.RequestsPerSecond,
            "401 and 403: no right to it; 5xx: the server's fault.",
            stacked=True,
        ),
        chart(
            "Slowest routes, p99",
            [
                Line(
                    "topk(8, histogram_quantile(0.99, sum by (handler, le) "
                    f"(rate(trilens_http_request_duration_seconds_bucket{{{_I}}}{_RATE}))))",
                    "{{handler}}",
                )
            ],
            units.Seconds,
            "From a request's arrival to the end of its answer.",
        ),
        chart(
            "Rule groups, last pass",
            [Line(f"topk(8, trilens_rule_group_last_duration_seconds{{{_I}}})", "{{rule_group}}")],
            units.Seconds,
            "How long it took; longer than the interval, and passes are left out.",
        ),
        chart(
            "Rules late or failing",
            [
                Line(
                    f"sum(increase(trilens_rule_group_iterations_missed_total{{{_I}}}{_RATE}))",
                    "passes left out",
                ),
                Line(
                    f"sum(increase(trilens_rule_evaluation_failures_total{{{_I}}}{_RATE}))",
                    "evaluations failed",
                ),
            ],
            units.Short,
            "It should be none. `trilens rules list --failing` has the errors.",
        ),
        chart(
            "How long a look takes",
            [Line(f"max(trilens_detection_last_duration_seconds{{{_I}}})", "a look for trouble")],
            units.Seconds,
            "All detectors, one after the other. It looks every 5 seconds.",
        ),
        chart(
            "The event loop comes late by",
            [Line("max(trilens:event_loop_delay:seconds)", "p99")],
            units.Seconds,
            "The loop that answers requests, to what is due.",
        ),
        chart(
            "Since money was booked",
            [Line(f"time() - max(trilens_ledger_upto_timestamp_seconds{{{_I}}})", "booked until, ago")],
            units.Seconds,
            "It is booked every minute.",
            levels=Levels(600, 1800),
        ),
        chart(
            "Processor",
            [Line(f"sum by (instance) (rate(process_cpu_seconds_total{{{_I}}}{_RATE}))", "{{instance}}")],
            units.Short,
            "Cores.",
        ),
    ),
)

_TOLD: Final = Section(
    "People are told, and data are safe",
    (
        chart(
            "Messages that wait",
            [Line(f"max by (receiver) (trilens_notifications_oldest_seconds{{{_I}}})", "{{receiver}}")],
            units.Seconds,
            "The age of the oldest; there where receivers are set.",
            levels=Levels(60, 300),
        ),
        chart(
            "Since the last backup",
            [Line(f"time() - max(trilens_backup_last_success_timestamp_seconds{{{_I}}})", "age")],
            units.Seconds,
            "There once a backup was made.",
            levels=Levels(90_000, 129_600),
        ),
        chart(
            "Log",
            [Line(f"sum by (level) (increase(trilens_log_lines_total{{{_I}}}{_RATE}))", "{{level}}")],
            units.Short,
            "Warnings and errors.",
        ),
        chart(
            "Incidents and findings",
            [
                Line(f"sum by (severity) (trilens_incidents_open{{{_I}}})", "incidents, {{severity}}"),
                Line(f"sum by (severity) (trilens_findings_open{{{_I}}})", "findings, {{severity}}"),
            ],
            units.Short,
            "That are open.",
        ),
        listing(
            "Versions",
            f"max by (instance, version) (trilens_build_info{{{_I}}})",
            "What runs.",
            {"instance": link("Doctor in Trilens", "${trilens}/doctor")},
        ),
        listing(
            "Blind alerts",
            "max by (alertname, missing) (trilens_rule_blind)",
            "Alerts that can find nothing, because nobody tells what they look at.",
            {"alertname": link("Doctor in Trilens", "${trilens}/doctor")},
        ),
    ),
)

ITSELF: Final = Board(
    "itself",
    "Trilens itself",
    "Whether Trilens keeps all that comes in, has room, is in time, and tells people. "
    "docs/self-monitoring.md says what to do.",
    (Chosen("instance", "instance", 'trilens_build_info{job="trilens"}', "A server of Trilens."),),
    (_NOW, _INTAKE, _STORE, _WORK, _TOLD),
    page="/doctor",
    since="now-24h",
)
