from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from trilens.collect.config import ScrapeConfig, load_scrape_configs
from trilens.model.errors import ConfigError, UnknownSetting

BASE = Path("conf")


def load(text: str, base: Path = BASE) -> list[ScrapeConfig]:
    return load_scrape_configs(yaml.safe_load(text), base)


def test_a_prometheus_configuration_is_taken_as_it_is() -> None:
    (config,) = load("""
        global:
          scrape_interval: 30s
          scrape_timeout: 20s
          evaluation_interval: 1m
          sample_limit: 5000
          external_labels: {region: eu}
        rule_files: [rules/*.yml]
        alerting: {alertmanagers: []}
        remote_write: [{url: http://elsewhere/}]
        scrape_configs:
          - job_name: dcgm
            metrics_path: /probe
            scheme: https
            params: {module: [http_2xx, other]}
            honor_labels: true
            body_size_limit: 1.5MB
            basic_auth: {username: 7, password_file: secrets/pw}
            tls_config: {insecure_skip_verify: true, min_version: TLS12}
            http_headers: {X-Tenant: {values: [a]}}
            static_configs:
              - targets: ["host-1:9400", "[::1]:9400"]
                labels: {rack: 12, gpu: true}
            file_sd_configs: [{files: [targets/*.json], refresh_interval: 30s}]
            http_sd_configs: [{url: "http://inventory/targets", authorization: {credentials: t}}]
            relabel_configs:
              - source_labels: [__address__]
                regex: (.*):\\d+
                target_label: host
            metric_relabel_configs:
              - {action: labeldrop, regex: err_.*}
        """)
    assert config.scrape_interval == timedelta(seconds=30)
    assert config.scrape_timeout == timedelta(seconds=20)
    assert config.sample_limit == 5000
    assert config.body_size_limit == 1.5 * 1024 * 1024
    assert config.static_configs[0].labels == {"rack": "12", "gpu": "true"}
    assert config.file_sd_configs[0].files == (BASE / "targets/*.json",)
    assert config.basic_auth is not None
    assert config.basic_auth.password_file == BASE / "secrets/pw"
    assert config.params == {"module": ("http_2xx", "other")}


@pytest.mark.parametrize(
    ("text", "interval_s", "timeout_s"),
    [
        ("scrape_configs: [{job_name: a}]", 60, 10),
        ("scrape_configs: [{job_name: a, scrape_interval: 5s}]", 5, 5),
        ("{global: {scrape_interval: 3s}, scrape_configs: [{job_name: a}]}", 3, 3),
        ("{global: {scrape_timeout: 20s}, scrape_configs: [{job_name: a, scrape_interval: 15s}]}", 15, 15),
        ("scrape_configs: [{job_name: a, scrape_timeout: 30s}]", 60, 30),
    ],
)
def test_timing_defaults(text: str, interval_s: int, timeout_s: int) -> None:
    (config,) = load(text)
    assert config.scrape_interval.total_seconds() == interval_s
    assert config.scrape_timeout.total_seconds() == timeout_s


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"consul_sd_configs": [{}]}, r"scrape_configs\[0\]\.consul_sd_configs: not supported yet"),
        ({"oauth2": {"client_id": "x"}}, r"scrape_configs\[0\]\.oauth2"),
        ({"scrape_interval": "5"}, r"scrape_configs\[0\]\.scrape_interval: .*5"),
        ({"scrape_interval": "5s", "scrape_timeout": "6s"}, "scrape_timeout is longer"),
        ({"static_configs": [{"targets": ["http://x/m"]}]}, r"static_configs\[0\]\.targets: .*host:port"),
        ({"relabel_configs": [{"regex": "(", "target_label": "x"}]}, r"relabel_configs\[0\]\.regex: .*RE2"),
        ({"body_size_limit": "many"}, "body_size_limit: .*size"),
        ({"basic_auth": {}, "authorization": {}}, "give one of"),
        ({"bearer_token": "a", "bearer_token_file": "b"}, "give one of"),
        ({"file_sd_configs": [{"files": ["x.txt"]}]}, r"file_sd_configs\[0\]\.files: .*\.json"),
        ({"scrape_protocols": ["PrometheusProto"]}, "protobuf"),
        ({"convert_classic_histograms_to_nhcb": True}, "native histograms"),
        ({"sample_limit": -1}, "sample_limit"),
    ],
)
def test_what_is_wrong_or_not_supported_is_named_by_its_path(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_scrape_configs({"scrape_configs": [{"job_name": "a", **section}]}, BASE)


@pytest.mark.parametrize(
    ("document", "path", "nearest"),
    [
        ({"scrape_config": []}, "scrape_config", "scrape_configs"),
        ({"global": {"scrape_intervall": "1s"}}, "global.scrape_intervall", "scrape_interval"),
        (
            {"scrape_configs": [{"job_name": "a", "honour_labels": True}]},
            "scrape_configs[0].honour_labels",
            "honor_labels",
        ),
        (
            {"scrape_configs": [{"job_name": "a", "relabel_configs": [{"source_label": ["a"]}]}]},
            "scrape_configs[0].relabel_configs[0].source_label",
            "source_labels",
        ),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    document: dict[str, Any], path: str, nearest: str
) -> None:
    with pytest.raises(UnknownSetting) as caught:
        load_scrape_configs(document, BASE)
    assert (caught.value.path, caught.value.nearest) == (path, nearest)


def test_what_is_switched_off_needs_no_support() -> None:
    off = "convert_classic_histograms_to_nhcb: false, consul_sd_configs: []"
    (config,) = load(f"scrape_configs: [{{job_name: a, {off}}}]")
    assert config.job_name == "a"


def test_two_jobs_cannot_share_a_name(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("scrape_configs: [{job_name: b}, {job_name: a}]")
    text = "{scrape_configs: [{job_name: a}], scrape_config_files: [more.yml]}"
    with pytest.raises(
        ConfigError, match=r"more\.yml:1:34: scrape_configs\[1\]\.job_name: .* another job 'a'"
    ):
        load(text, tmp_path)
    (tmp_path / "more.yml").write_text("scrape_configs: [{job_name: b}]")
    assert [config.job_name for config in load(text, tmp_path)] == ["a", "b"]


def test_secrets_are_not_shown() -> None:
    (config,) = load("scrape_configs: [{job_name: a, bearer_token: hush}]")
    assert "hush" not in repr(config)
    assert config.request_headers() == [("Authorization", "Bearer hush")]


@pytest.mark.parametrize(
    "section",
    [
        {"proxy_url": "ftp://user:hunter2@proxy"},
        {"static_configs": [{"targets": ["http://user:hunter2@gpu-1/metrics"]}]},
        {"http_sd_configs": [{"url": "ftp://user:hunter2@targets"}]},
        {"kubernetes_sd_configs": [{"role": "pod", "api_server": "ftp://user:hunter2@api"}]},
    ],
)
def test_a_wrong_address_is_told_without_its_password(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="<secret>@") as failed:
        load_scrape_configs({"scrape_configs": [{"job_name": "a", **section}]}, BASE)
    assert "hunter2" not in str(failed.value)
