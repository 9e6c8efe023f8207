"""The scrape manager against real HTTP targets on loopback."""

from __future__ import annotations

import json
import math
import ssl
import subprocess
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recording_sink import STALE, RecordingSink

from http_target import OPENMETRICS, Answer, HttpTarget
from servers import require_server
from trilens.collect.body_buffer import BodyBuffers
from trilens.collect.config import ScrapeConfig, load_scrape_configs
from trilens.collect.loop import align
from trilens.collect.manager import ScrapeManager
from trilens.collect.target import DroppedTarget, Target, build_target
from trilens.model.errors import ConfigError
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

REPORTS = {
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
}


def job(
    *targets: HttpTarget | str, name: str = "job", base: Path = Path("nowhere"), **more: Any
) -> ScrapeConfig:
    addresses = [target if isinstance(target, str) else target.address for target in targets]
    section = {
        "job_name": name,
        "scrape_interval": "250ms",
        "static_configs": [{"targets": addresses}],
        **more,
    }
    return load_scrape_configs({"scrape_configs": [section]}, base)[0]


@contextmanager
def scraping(
    *configs: ScrapeConfig, sink: RecordingSink | None = None
) -> Iterator[tuple[ScrapeManager, RecordingSink]]:
    sink = sink or RecordingSink()
    manager = ScrapeManager(configs, sink)
    manager.start()
    try:
        yield manager, sink
    finally:
        manager.stop()


@pytest.fixture
def target() -> Iterator[HttpTarget]:
    with HttpTarget('# TYPE a gauge\n# HELP a text\na{x="1"} 1\nb 2\n') as running:
        yield running


def reported(sink: RecordingSink, name: str) -> float | str:
    """Of the first scrape that came through: on a busy machine one may take longer than its interval."""
    t_ms = next(one.t_ms for one in sink.of("up") if one.value == 1)
    return next(one.value for one in sink.of(name) if one.t_ms == t_ms)


def test_a_scrape_becomes_one_batch_with_its_reports(target: HttpTarget) -> None:
    with scraping(job(target)) as (manager, sink):
        sink.wait_for(lambda s: s.batches >= 3)
        (status,) = manager.targets()
    labels = {"instance": target.address, "job": "job"}
    assert sink.of("a")[0].labels == {"__name__": "a", "x": "1", **labels}
    for name in REPORTS:
        assert sink.of(name)[0].labels == {"__name__": name, **labels}
    assert {s.t_ms for s in sink.samples[:7]} == {sink.samples[0].t_ms}
    assert sink.values("up")[:3] == [1, 1, 1]
    assert sink.values("scrape_samples_scraped")[0] == 2
    assert sink.values("scrape_samples_post_metric_relabeling")[0] == 2
    assert sink.values("scrape_series_added")[:3] == [2, 0, 0]
    assert sink.metadata == {"a": ("gauge", "text", "")}
    assert (status.health, status.last_error, status.labels) == ("up", "", labels)
    assert status.scrape_url == f"http://{target.address}/metrics"
    assert status.last_duration_s is not None
    assert status.discovered_labels["__scrape_interval__"] == "250ms"
    stats = manager.stats()
    assert stats.scrapes == sink.batches
    assert stats.samples_appended == len(sink.samples)
    assert manager.target_metadata()[0].family.metric == "a"


def test_a_series_that_disappears_is_marked_stale_once(target: HttpTarget) -> None:
    with scraping(job(target)) as (_, sink):
        sink.wait_for(lambda s: s.values("b"))
        target.say('a{x="1"} 5\n')
        sink.wait_for(lambda s: STALE in s.values("b") and s.values("a")[-2:] == [5, 5])
        target.say('a{x="1"} 6\nb 3\n')
        sink.wait_for(lambda s: s.values("b")[-1] == 3)
    assert sink.values("b").count(STALE) == 1
    assert STALE not in sink.values("a")
    stale = next(s for s in sink.of("b") if s.value == STALE)
    assert stale.t_ms in {s.t_ms for s in sink.of("up")}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(b"a 1\nb oops\n"), "line 2"),
        (Answer(b"a 1\n", status=503), "503"),
        (Answer(b"a 1\n", content_type=OPENMETRICS), "# EOF"),
        (Answer(b"not gzip", headers={"Content-Encoding": "gzip"}), "gzip"),
    ],
)
def test_a_target_that_fails_is_down_with_the_reason_and_harms_no_other(
    target: HttpTarget, answer: Answer, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trilens.collect")
    with HttpTarget("c 1\n") as other, scraping(job(target, other)) as (manager, sink):
        sink.wait_for(lambda s: s.values("a") and s.values("c"))
        target.answers["/metrics"] = answer
        sink.wait_for(lambda s: 0 in s.values("up") and STALE in s.values("a"))
        status = {s.labels["instance"]: s for s in manager.targets()}
        target.say("a 9\n")
        sink.wait_for(lambda s: s.values("a")[-1] == 9)
    assert status[target.address].health == "down"
    assert reason in status[target.address].last_error
    assert status[other.address].health == "up"
    assert set(sink.values("up", instance=other.address)) == {1}
    assert STALE not in sink.values("c")
    assert manager.stats().failures >= 1
    assert [record.message for record in caplog.records] == ["target is down", "target is up again"]


def test_a_password_in_an_address_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    with HttpTarget() as gone:
        address = gone.address
    labels = {"__param_target": "http://user:hunter2@gpu-1/"}
    static = [{"targets": [f"user:hunter2@{address}"], "labels": labels}]
    with scraping(job(address, static_configs=static)) as (manager, sink):
        # The first scrape with a user in its URL loads aiohttp, which may take all of its time.
        sink.wait_for(lambda _: any("GET" in status.last_error for status in manager.targets()))
        (status,) = manager.targets()
    assert status.health == "down"
    assert status.last_error.startswith(f"GET http://<secret>@{address}/metrics?")
    assert status.scrape_url.startswith(f"http://<secret>@{address}/metrics?")
    assert (status.labels["instance"], status.discovered_labels["__address__"]) == (address, address)
    assert status.discovered_labels["__param_target"] == "http://<secret>@gpu-1/"
    assert "target is down" in caplog.messages
    assert "hunter2" not in str([vars(record) for record in caplog.records])
    assert sink.of("up")[0].labels["instance"] == address


@pytest.mark.parametrize(
    ("address", "shown"), [("user:hunter2@x/y", "x/y"), ("http://u:hunter2@x", "http://<secret>@x")]
)
def test_a_password_in_an_impossible_address_is_not_shown_either(address: str, shown: str) -> None:
    dropped = build_target({"__address__": address}, job())
    assert isinstance(dropped, DroppedTarget)
    assert dropped.reason == f"{shown!r} is not host:port"
    assert dropped.discovered_labels["__address__"] == shown


def test_all_jobs_receive_into_the_same_memory(monkeypatch: pytest.MonkeyPatch, target: HttpTarget) -> None:
    taken_from: list[BodyBuffers] = []
    take = BodyBuffers.take
    monkeypatch.setattr(BodyBuffers, "take", lambda self: taken_from.append(self) or take(self))
    with scraping(job(target, name="one"), job(target, name="two")) as (_, sink):
        sink.wait_for(lambda s: s.values("up", job="one") and s.values("up", job="two"))
    assert len(taken_from) >= 2
    assert len({id(buffers) for buffers in taken_from}) == 1


def test_an_unreachable_target_and_a_slow_one_are_down(target: HttpTarget) -> None:
    target.hold.clear()
    with HttpTarget() as gone:
        address = gone.address
    with scraping(job(target, name="slow"), job(address, name="gone")) as (manager, sink):
        sink.wait_for(lambda s: s.values("up", job="slow") and s.values("up", job="gone"))
        errors = {status.job: status.last_error for status in manager.targets()}
        target.hold.set()
    assert sink.values("up", job="slow")[0] == sink.values("up", job="gone")[0] == 0
    assert "no complete answer within 0.25 s" in errors["slow"]
    assert "cannot connect: Connection refused" in errors["gone"]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"sample_limit": 1}, "sample_limit of 1"),
        ({"label_limit": 3}, "label_limit of 3"),
        ({"label_name_length_limit": 7}, "label_name_length_limit"),
        ({"label_value_length_limit": 8}, "label_value_length_limit"),
        ({"body_size_limit": "10B"}, "body_size_limit of 10"),
        (
            {"target_limit": 1, "static_configs": [{"targets": ["127.0.0.1:1", "127.0.0.1:2"]}]},
            "target_limit of 1",
        ),
    ],
)
def test_limits(target: HttpTarget, setting: dict[str, Any], reason: str) -> None:
    with scraping(job(target, **setting)) as (manager, sink):
        sink.wait_for(lambda s: s.values("up"))
        errors = [status.last_error for status in manager.targets()]
    assert any(reason in error for error in errors)
    assert set(sink.values("up")) == {0}
    assert sink.values("a") == []


def test_body_limit_counts_after_decompression(target: HttpTarget) -> None:
    target.say("# " + "x" * 100_000 + "\na 1\n", compress=True)
    with scraping(job(target, body_size_limit="10KB")) as (manager, sink):
        sink.wait_for(lambda s: s.values("up"))
        assert "body_size_limit" in manager.targets()[0].last_error
    with scraping(job(target, body_size_limit="1MB")) as (manager, sink):
        sink.wait_for(lambda s: 1 in s.values("up"))
    assert target.requests[-1][1]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("honor", "exposed", "expected"),
    [
        (False, 'a{job="x",instance=""} 1', {"job": "job", "exported_job": "x"}),
        (False, 'a{job="x",exported_job="y"} 1', {"exported_job": "y", "exported_exported_job": "x"}),
        (True, 'a{job="x"} 1', {"job": "x"}),
        (True, 'a{instance=""} 1', {"job": "job", "instance": None}),
    ],
)
def test_honor_labels(target: HttpTarget, honor: bool, exposed: str, expected: dict[str, str | None]) -> None:
    target.say(exposed + "\n")
    with scraping(job(target, honor_labels=honor)) as (_, sink):
        sink.wait_for(lambda s: s.of("a"))
    labels = sink.of("a")[0].labels
    assert {name: labels.get(name) for name in expected} == expected


def test_explicit_timestamps(target: HttpTarget) -> None:
    now = int(time.time() * 1000)
    far = now + 3_600_000
    target.say(f"a 1 {now - 5000}\nb 2\nfar 1 {far}\n")
    with scraping(job(target)) as (manager, sink):
        sink.wait_for(lambda s: len(s.of("b")) >= 2)
        target.say("c 1\n")
        sink.wait_for(lambda s: STALE in s.values("b"))
    assert [s.t_ms for s in sink.of("a")] == [now - 5000]  # later ones repeat it
    assert sink.values("a") == [1]  # and its end is the exporter's business
    assert sink.of("far") == []
    assert manager.stats().samples_too_far_ahead >= 2

    target.say(f"a 1 {now - 5000}\n")
    with scraping(job(target, honor_timestamps=False)) as (_, sink):
        sink.wait_for(lambda s: len(s.of("a")) >= 2)
    assert sink.of("a")[0].t_ms == sink.of("up")[0].t_ms

    with scraping(job(target, track_timestamps_staleness=True)) as (_, sink):
        target.say(f"a 1 {now}\n")
        sink.wait_for(lambda s: s.of("a"))
        target.say("c 1\n")
        sink.wait_for(lambda s: STALE in s.values("a"))


def test_openmetrics_is_asked_for_and_read(target: HttpTarget) -> None:
    target.say('# TYPE a counter\n# UNIT a_s s\na_total 1 # {id="1"} 1\n# EOF\n', content_type=OPENMETRICS)
    with scraping(job(target)) as (_, sink):
        sink.wait_for(lambda s: len(s.of("a_total")) >= 2)
    _, headers = target.requests[0]
    assert headers["Accept"].startswith(
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.9,"
    )
    assert headers["X-Prometheus-Scrape-Timeout-Seconds"] == "0.25"
    assert sink.metadata["a_s"] == ("unknown", "", "s")


def test_the_fallback_decides_for_a_type_that_says_nothing(target: HttpTarget) -> None:
    target.say("# EOFF\na 1\n", content_type="application/octet-stream")
    openmetrics = job(target, name="om", fallback_scrape_protocol="OpenMetricsText1.0.0")
    with scraping(job(target, name="text"), openmetrics) as (_, sink):
        sink.wait_for(lambda s: 1 in s.values("up", job="text") and s.values("up", job="om"))
    assert set(sink.values("up", job="om")) == {0}


def test_strict_openmetrics_is_a_choice(target: HttpTarget) -> None:
    target.say("# TYPE a counter\na_total -1\n# EOF\n", content_type=OPENMETRICS)
    strict = job(target, name="strict", strict_openmetrics=True)
    with scraping(job(target, name="usual"), strict) as (_, sink):
        sink.wait_for(lambda s: 1 in s.values("up", job="usual") and s.values("up", job="strict"))
    assert set(sink.values("up", job="strict")) == {0}


def test_metric_relabelling_drops_and_renames(target: HttpTarget) -> None:
    steps = [
        {"source_labels": ["__name__"], "regex": "b", "action": "drop"},
        {"source_labels": ["x"], "target_label": "y"},
    ]
    with scraping(job(target, metric_relabel_configs=steps)) as (_, sink):
        sink.wait_for(lambda s: len(s.of("a")) >= 2)
    assert sink.of("b") == []
    assert sink.of("a")[0].labels["y"] == "1"
    assert reported(sink, "scrape_samples_scraped") == 2
    assert reported(sink, "scrape_samples_post_metric_relabeling") == 1
    assert reported(sink, "scrape_series_added") == 1


def test_requests_carry_credentials_params_and_headers(target: HttpTarget, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    target.say("a 1\n", "/probe")
    config = job(
        target,
        base=tmp_path,
        metrics_path="/probe",
        params={"module": ["m 1", "m2"], "t": ["x"]},
        authorization={"type": "Token", "credentials_file": "token"},
        http_headers={"X-Two": {"values": ["a"]}},
        enable_compression=False,
        relabel_configs=[{"target_label": "__param_t", "replacement": "changed"}],
    )
    with scraping(config) as (_, sink):
        sink.wait_for(lambda s: s.of("a"))
        (tmp_path / "token").write_text("second")
        seen = len(target.requests)
        sink.wait_for(lambda s: len(target.requests) > seen + 1)
    path, headers = target.requests[0]
    assert path == "/probe?module=m+1&module=m2&t=changed"
    assert headers["Authorization"] == "Token first"
    assert target.requests[-1][1]["Authorization"] == "Token second"
    assert headers["X-Two"] == "a"
    assert headers["Accept-Encoding"] == "identity"


def test_a_proxy_is_asked_for_the_whole_url(target: HttpTarget) -> None:
    target.say("a 1\n", "http://far.example:9/metrics")
    with scraping(job("far.example:9", proxy_url=f"http://{target.address}")) as (_, sink):
        sink.wait_for(lambda s: s.of("a"))
    assert sink.values("a")[0] == 1


def test_tls_is_verified_unless_told_otherwise(tmp_path: Path) -> None:
    openssl = require_server("openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=gpu"
    files = ["-keyout", key, "-out", certificate, "-addext", "subjectAltName=DNS:gpu"]
    subprocess.run([openssl, "req", *options.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = {"ca_file": str(certificate), "server_name": "gpu"}
    with HttpTarget("a 1\n", tls=context) as target:
        configs = [
            job(target, name="stranger", scheme="https"),
            job(target, name="trusted", scheme="https", tls_config=trusting),
            job(target, name="careless", scheme="https", tls_config={"insecure_skip_verify": True}),
        ]
        with scraping(*configs) as (manager, sink):
            sink.wait_for(lambda s: all(1 in s.values("up", job=name) for name in ("trusted", "careless")))
            sink.wait_for(lambda s: s.values("up", job="stranger"))
            errors = {status.job: status.last_error for status in manager.targets()}
    assert "certificate" in errors["stranger"]
    assert set(sink.values("up", job="stranger")) == {0}


def test_redirects(target: HttpTarget) -> None:
    target.say("", status=302, headers={"Location": "/moved"})
    target.say("a 1\n", "/moved")
    with scraping(job(target, name="yes"), job(target, name="no", follow_redirects=False)) as (_, sink):
        sink.wait_for(lambda s: 1 in s.values("up", job="yes") and s.values("up", job="no"))
    assert set(sink.values("up", job="no")) == {0}


def test_a_target_that_goes_away_is_marked_stale_after_its_next_scrape(
    target: HttpTarget, tmp_path: Path
) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps([{"targets": [target.address]}]))
    config = job(file_sd_configs=[{"files": [str(file)], "refresh_interval": "10ms"}], static_configs=[])
    with scraping(config) as (manager, sink):
        sink.wait_for(lambda s: s.of("a"))
        file.write_text("[]")
        sink.wait_for(lambda s: STALE in s.values("up"))
        assert manager.targets() == []
    for name in ("a", "b", *REPORTS):
        assert sink.values(name).count(STALE) == 1
        assert sink.values(name)[-1] == STALE
    assert sink.of("up")[-1].t_ms > sink.of("up")[-2].t_ms


def test_a_job_that_is_removed_ends_its_series(target: HttpTarget) -> None:
    with HttpTarget("c 1\n") as other, scraping(job(target), job(other, name="other")) as (manager, sink):
        sink.wait_for(lambda s: s.of("a") and s.of("c"))
        manager.reload([job(other, name="other")])
        sink.wait_for(lambda s: STALE in s.values("a") and STALE in s.values("up"))
        assert [status.job for status in manager.targets()] == ["other"]
    assert STALE not in sink.values("c")


def test_a_target_that_comes_back_in_time_is_not_marked(target: HttpTarget) -> None:
    config = job(target, scrape_interval="400ms")
    # Even where an old marker would still be taken.
    with scraping(config, sink=RecordingSink(takes_old=True)) as (manager, sink):
        sink.wait_for(lambda s: s.of("a"))
        manager.reload([])
        manager.reload([config])
        sink.wait_for(lambda s: len(s.of("a")) >= 5)
    assert STALE not in sink.values("a")
    assert STALE not in sink.values("up")


def test_shutdown_leaves_no_markers_and_appends_what_is_under_way(target: HttpTarget) -> None:
    sink = RecordingSink()
    manager = ScrapeManager([job(target, scrape_interval="1s")], sink)
    manager.start()
    target.hold.clear()
    target.asked.acquire()
    stopping = threading.Thread(target=manager.stop)
    stopping.start()
    target.hold.set()  # the answer comes while the manager is stopping
    stopping.join(timeout=20)
    assert not stopping.is_alive()
    assert sink.values("a") == [1]
    assert sink.values("up") == [1]
    manager.stop()  # a second time is harmless


def test_reload_keeps_unchanged_jobs_and_hands_series_over(target: HttpTarget) -> None:
    with HttpTarget("c 1\n") as other, scraping(job(target), job(other, name="other")) as (manager, sink):
        sink.wait_for(lambda s: s.of("a") and s.of("c"))
        steps = [{"source_labels": ["__name__"], "regex": "b", "action": "drop"}]
        manager.reload([job(target, metric_relabel_configs=steps), job(other, name="other")])
        sink.wait_for(lambda s: STALE in s.values("b"))
        # The target itself leaves the job: its series end.
        manager.reload([job("127.0.0.1:1"), job(other, name="other")])
        sink.wait_for(lambda s: STALE in s.values("a") and STALE in s.values("up", instance=target.address))
    assert sink.values("a").count(STALE) == 1
    assert STALE not in sink.values("c")
    assert sink.values("scrape_series_added", job="other")[1:].count(1) == 0  # the loop went on as it was


@pytest.mark.parametrize(
    ("now", "tick", "stamp"),
    [
        (1000, 1000, 1000),
        (16_002, 16_000, 16_000),  # late by no more than the tolerance
        (15_999, 16_000, 16_000),  # timers may also be early
        (16_003, 16_000, 16_003),
        (46_001, 46_000, 46_000),  # two ticks were left out
        (46_800, 46_000, 46_800),
        (200, 1000, 200),  # the clock was set back
    ],
)
def test_timestamps_are_those_of_the_tick_when_near(now: int, tick: int, stamp: int) -> None:
    assert align(1000, now, interval_ms=15_000, tolerance_ms=2) == (tick, stamp)


def test_the_tolerance_is_at_most_a_hundredth_of_the_interval() -> None:
    assert align(0, 102, interval_ms=100, tolerance_ms=1000) == (100, 102)


def test_targets_spread_over_the_interval_and_stay_there() -> None:
    config = job(*(f"host-{i}:1" for i in range(200)), scrape_interval="10s")
    targets = [build_target({"__address__": a}, config) for a in config.static_configs[0].targets]
    moments = [(t.wait_ms("seed", 1_000_003) + 1_000_003) % 10_000 for t in targets if isinstance(t, Target)]
    later = [(t.wait_ms("seed", 7_654_321) + 7_654_321) % 10_000 for t in targets if isinstance(t, Target)]
    assert moments == later
    assert min(moments) < 1000
    assert max(moments) > 9000
    other = [(t.wait_ms("other", 0)) % 10_000 for t in targets if isinstance(t, Target)]
    assert other != moments


def test_dropped_and_impossible_targets_are_listed(target: HttpTarget) -> None:
    steps = [
        {"source_labels": ["__address__"], "regex": "drop:.*", "action": "drop"},
        {
            "source_labels": ["__address__"],
            "regex": "odd:.*",
            "target_label": "__scheme__",
            "replacement": "ftp",
        },
    ]
    with scraping(job(target, "drop:1", "odd:1", target, relabel_configs=steps)) as (manager, sink):
        sink.wait_for(lambda s: s.of("up"))
        assert len(manager.targets()) == 1  # the same target twice is one
        dropped = manager.dropped_targets()
    assert [(d.discovered_labels["__address__"], d.reason) for d in dropped] == [
        ("drop:1", ""),
        ("odd:1", "'ftp' is neither http nor https"),
    ]


@pytest.mark.parametrize(
    ("labels", "url", "instance"),
    [
        ({"__address__": "h"}, "http://h/metrics", "h"),
        ({"__address__": "h:1", "__scheme__": "https", "__metrics_path__": "x"}, "https://h:1/x", "h:1"),
        ({"__address__": "h:1", "instance": "named"}, "http://h:1/metrics", "named"),
        ({"__address__": "[::1]:9"}, "http://[::1]:9/metrics", "[::1]:9"),
    ],
)
def test_target_labels(labels: dict[str, str], url: str, instance: str) -> None:
    built = build_target({**labels, "__meta_x": "1"}, job("unused:1"))
    assert isinstance(built, Target)
    assert (built.url, dict(built.labels)) == (url, {"instance": instance, "job": "job"})


def test_timing_can_be_relabelled() -> None:
    steps = [{"target_label": "__scrape_interval__", "replacement": "7s"}]
    built = build_target({"__address__": "h:1"}, job("unused:1", relabel_configs=steps))
    assert isinstance(built, Target)
    assert (built.interval_s, built.timeout_s) == (7.0, 0.25)
    steps = [{"target_label": "__scrape_timeout__", "replacement": "7s"}]
    built = build_target({"__address__": "h:1"}, job("unused:1", relabel_configs=steps))
    assert isinstance(built, DroppedTarget)
    assert "longer" in built.reason


def test_a_store_that_takes_no_writes_does_not_end_the_scraping(target: HttpTarget) -> None:
    sink = RecordingSink()
    sink.read_only = True
    with scraping(job(target), sink=sink) as (manager, _):
        for _ in range(3):
            target.asked.acquire()
        assert "disk is full" in manager.targets()[0].last_error
        assert manager.stats().samples_refused > 0
        sink.read_only = False
        sink.wait_for(lambda s: s.of("a"))


def test_nan_is_no_staleness_marker(target: HttpTarget) -> None:
    target.say("a NaN\n")
    with scraping(job(target)) as (_, sink):
        sink.wait_for(lambda s: s.of("a"))
    value = sink.values("a")[0]
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("own", [True, False], ids=["of the target", "of the discovery"])
def test_a_job_whose_certificate_cannot_be_read_does_not_start(target: HttpTarget, own: bool) -> None:
    missing = {"tls_config": {"ca_file": "missing.pem"}}
    more = missing if own else {"http_sd_configs": [{"url": "http://127.0.0.1:1", **missing}]}
    manager = ScrapeManager([job(target, **more)], RecordingSink())
    with pytest.raises(ConfigError, match="tls_config"):
        manager.start()
    assert not any(thread.name == "trilens-scrape" for thread in threading.enumerate())


def test_a_discovered_label_that_is_no_utf8_does_not_end_the_scraping(tmp_path: Path) -> None:
    """JSON can spell half of a surrogate pair, which UTF-8 cannot; as Prometheus does, read it as U+FFFD."""
    store = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    with HttpTarget("a 1\n") as target, closing(store):
        groups = tmp_path / "targets.json"
        groups.write_text(f'[{{"targets": ["{target.address}"], "labels": {{"rack": "r\\ud800"}}}}]')
        config = job(base=tmp_path, static_configs=[], file_sd_configs=[{"files": [str(groups)]}])
        manager = ScrapeManager([config], store)
        manager.start()
        try:
            for _ in range(3):  # it goes on
                assert target.asked.acquire(timeout=20)
            (status,) = manager.targets()
        finally:
            manager.stop()
        assert status.labels["rack"] == "r\ufffd"
        assert store.label_values("rack", None, 0, 2**53) == ["r\ufffd"]
