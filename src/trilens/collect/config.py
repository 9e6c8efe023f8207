"""A Prometheus configuration's `global` and `scrape_configs`, as they are written there."""

from __future__ import annotations

import difflib
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from trilens.collect.config_section import ConfigPath, Section, Text
from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig
from trilens.collect.http_config import HttpConfig
from trilens.collect.relabel import RelabelConfig
from trilens.model.errors import ConfigError, UnknownSetting
from trilens.model.masking import without_passwords
from trilens.settings.duration import Duration  # noqa: TC001  # pydantic reads it at run time
from trilens.settings.explain import explain
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DEFAULT_INTERVAL: Final = timedelta(minutes=1)
_DEFAULT_TIMEOUT: Final = timedelta(seconds=10)
_SIZE: Final = re.compile(r"(?P<count>[0-9]+(?:\.[0-9]+)?)(?P<unit>[KMGTPE]?)i?B")
_NOWHERE: Final = Place(None)
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# Parts of a Prometheus configuration that are not about scraping.
_OTHER_TOP_LEVEL: Final = frozenset(
    {"alerting", "rule_files", "remote_write", "remote_read", "storage", "tracing", "otlp", "runtime"}
)
_OTHER_GLOBAL: Final = frozenset(
    {"evaluation_interval", "rule_query_offset", "external_labels", "query_log_file"}
)
_UNSUPPORTED: Final = {
    "oauth2": "OAuth 2 is not supported yet",
    "sigv4": "AWS request signing is not supported",
    "proxy_from_environment": "a proxy from the environment is not supported; give proxy_url",
    "proxy_connect_header": "headers for a proxy are not supported yet",
    "no_proxy": "exceptions from a proxy are not supported yet",
    "scrape_failure_log_file": "a log of failed scrapes is not supported yet; see the targets page",
    "convert_classic_histograms_to_nhcb": "native histograms are not supported yet",
    "scrape_native_histograms": "native histograms are not supported yet",
    "extra_scrape_metrics": "the extra series about scrapes are not supported yet",
}
_SUPPORTED_DISCOVERY: Final = (
    "static_configs", "file_sd_configs", "http_sd_configs", "kubernetes_sd_configs",
)  # fmt: skip


def _bytes(value: Any) -> Any:
    """`10MB`, in powers of 1024 as Prometheus counts them."""
    if not isinstance(value, str) or value == "0":
        return value
    found = _SIZE.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is not a size; write it like 512KB or 10MB")
    return int(float(found["count"]) * 1024 ** " KMGTPE".index(found["unit"] or " "))


Size = Annotated[int, BeforeValidator(_bytes), Field(ge=0)]
Limit = Annotated[int, Field(ge=0)]
"""0 is no limit."""

Protocol = Literal[
    "PrometheusProto",
    "PrometheusText0.0.4",
    "PrometheusText1.0.0",
    "OpenMetricsText0.0.1",
    "OpenMetricsText1.0.0",
]


class StaticConfig(Section):
    targets: tuple[str, ...] = ()
    labels: dict[str, Text] = Field(default_factory=dict)

    @field_validator("targets")
    @classmethod
    def _are_addresses(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            if "/" in target:
                shown = without_passwords(target)
                raise ValueError(f"{shown!r} is not host:port; a path goes into metrics_path")
        return targets

    @field_validator("labels")
    @classmethod
    def _have_names(cls, labels: dict[str, str]) -> dict[str, str]:
        for name in labels:
            if not _LABEL_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a label name")
        return labels


class FileSdConfig(Section):
    files: tuple[ConfigPath, ...] = Field(min_length=1)
    refresh_interval: Duration = timedelta(minutes=5)

    @field_validator("files")
    @classmethod
    def _end_in_a_format(cls, files: tuple[Path, ...]) -> tuple[Path, ...]:
        for file in files:
            if file.suffix not in (".json", ".yml", ".yaml"):
                raise ValueError(f"{file.name!r} must end in .json, .yml or .yaml")
        return files


class HttpSdConfig(HttpConfig):
    url: str
    refresh_interval: Duration = timedelta(minutes=1)

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"https?://[^/]", url):
            raise ValueError(f"{without_passwords(url)!r} is not an http:// or https:// URL")
        return url


class ScrapeConfig(HttpConfig):
    """One job. Field for field Prometheus's, except `strict_openmetrics`, which is ours."""

    job_name: str = Field(min_length=1)
    scrape_interval: Duration
    scrape_timeout: Duration
    metrics_path: str = "/metrics"
    scheme: Literal["http", "https"] = "http"
    params: dict[str, tuple[Text, ...]] = Field(default_factory=dict)
    honor_labels: bool = False
    honor_timestamps: bool = True
    track_timestamps_staleness: bool = False
    enable_compression: bool = True
    strict_openmetrics: bool = False

    body_size_limit: Size = 0
    sample_limit: Limit = 0
    label_limit: Limit = 0
    label_name_length_limit: Limit = 0
    label_value_length_limit: Limit = 0
    target_limit: Limit = 0
    keep_dropped_targets: Limit = 0

    scrape_protocols: tuple[Protocol, ...] = (
        "OpenMetricsText1.0.0",
        "OpenMetricsText0.0.1",
        "PrometheusText0.0.4",
    )
    fallback_scrape_protocol: Protocol | None = None
    metric_name_validation_scheme: Literal["utf8"] = "utf8"
    metric_name_escaping_scheme: Literal["allow-utf-8", "underscores", "dots", "values"] = "allow-utf-8"
    # Accepted and without effect: only text is scraped, which has classic histograms and no native ones.
    scrape_classic_histograms: bool = True
    always_scrape_classic_histograms: bool = True
    native_histogram_bucket_limit: Limit = 0
    native_histogram_min_bucket_factor: float = 0

    static_configs: tuple[StaticConfig, ...] = ()
    file_sd_configs: tuple[FileSdConfig, ...] = ()
    http_sd_configs: tuple[HttpSdConfig, ...] = ()
    kubernetes_sd_configs: tuple[KubernetesSdConfig, ...] = ()
    relabel_configs: tuple[RelabelConfig, ...] = ()
    metric_relabel_configs: tuple[RelabelConfig, ...] = ()

    @model_validator(mode="after")
    def _timeout_fits(self) -> ScrapeConfig:
        if self.scrape_interval <= timedelta(0) or self.scrape_timeout <= timedelta(0):
            raise ValueError("scrape_interval and scrape_timeout must be above 0")
        if self.scrape_timeout > self.scrape_interval:
            raise ValueError("scrape_timeout is longer than scrape_interval")
        if all(protocol == "PrometheusProto" for protocol in self.scrape_protocols):
            raise ValueError("scrape_protocols needs a text format; protobuf is not supported")
        return self


_GLOBAL_DEFAULTS: Final = frozenset(
    {
        "scrape_interval", "scrape_timeout", "body_size_limit", "sample_limit", "label_limit",
        "label_name_length_limit", "label_value_length_limit", "target_limit", "keep_dropped_targets",
        "scrape_protocols", "metric_name_validation_scheme", "metric_name_escaping_scheme",
        "always_scrape_classic_histograms", "convert_classic_histograms_to_nhcb", "scrape_native_histograms",
        "scrape_failure_log_file", "extra_scrape_metrics",
    }
)  # fmt: skip


def load_scrape_configs(
    document: Mapping[str, Any], base_dir: Path, place: Place = _NOWHERE
) -> list[ScrapeConfig]:
    """Every job of a Prometheus configuration. Relative paths in it are relative to `base_dir`.

    `place` is where the document stands, for errors. Sections that are not about scraping (rule_files,
    alerting, remote_write, ...) are left to others.
    """
    known = {"global", "scrape_configs", "scrape_config_files", *_OTHER_TOP_LEVEL}
    _reject_unknown(document, known, place)
    given = _mapping(document.get("global"), place / "global")
    _reject_unknown(given, _GLOBAL_DEFAULTS | _OTHER_GLOBAL, place / "global")
    values = {key: value for key, value in given.items() if key in _GLOBAL_DEFAULTS}
    _reject_unsupported(values, place / "global")
    defaults = _Defaults(values, place / "global")
    sections = _sections(document, place)
    for pattern in _sequence(document, "scrape_config_files", place):
        sections += _sections_of_files(str(pattern), base_dir)
    configs = [_load_one(_mapping(section, at), defaults, at, base_dir) for at, section in sections]
    seen: set[str] = set()
    for (at, _), config in zip(sections, configs, strict=True):
        if config.job_name in seen:
            raise _wrong(at / "job_name", f"there is another job {config.job_name!r}")
        seen.add(config.job_name)
    return configs


def load_scrape_config(
    section: Mapping[str, Any],
    base_dir: Path,
    place: Place,
    job_name: str,
    defaults: Mapping[str, Any] | None = None,
) -> ScrapeConfig:
    """One job that is written by itself, and has its name from us; `defaults` as `global` has them."""
    if "job_name" in section:
        raise _wrong(place / "job_name", f"this job is called {job_name}, and needs no name")
    values = {key: value for key, value in (defaults or {}).items() if key in _GLOBAL_DEFAULTS}
    return _load_one({**section, "job_name": job_name}, _Defaults(values, place), place, base_dir)


def read_scrape_configs(file: Path, what: str) -> list[ScrapeConfig]:
    """The jobs of a prometheus.yml; `what` is its role, for the error when it cannot be read."""
    document = read_yaml(file, what)
    place = Place(document)
    return load_scrape_configs(_mapping(document.tree, place), file.parent, place)


def _sections(document: Mapping[str, Any], place: Place) -> list[tuple[Place, Any]]:
    found = _sequence(document, "scrape_configs", place)
    return [(place / "scrape_configs" / i, section) for i, section in enumerate(found)]


def _sections_of_files(pattern: str, base_dir: Path) -> list[tuple[Place, Any]]:
    sections = []
    for file in sorted(base_dir.glob(pattern)):
        place = Place(read_yaml(file, "a file of scrape_config_files"))
        document = _mapping(place.file.tree if place.file is not None else None, place)
        _reject_unknown(document, {"scrape_configs"}, place)
        sections += _sections(document, place)
    return sections


class _Defaults(NamedTuple):
    """What `global` says for every job."""

    values: Mapping[str, Any]
    place: Place


def _load_one(section: Mapping[str, Any], defaults: _Defaults, place: Place, base_dir: Path) -> ScrapeConfig:
    _reject_unsupported(section, place)
    # What is not supported is switched off or empty here, so there is nothing to support.
    merged = {k: value for k, value in {**defaults.values, **section}.items() if not _is_unsupported(k)}
    merged.setdefault("scrape_interval", _DEFAULT_INTERVAL)
    if "scrape_timeout" not in section:
        # A job that is scraped more often than the global timeout gets its own interval as timeout.
        try:
            timeout = _Timing.model_validate(merged)
        except ValidationError as e:
            raise _explain(e, section, defaults, place) from e
        merged["scrape_timeout"] = min(timeout.scrape_timeout, timeout.scrape_interval)
    try:
        return ScrapeConfig.model_validate(merged, context={"base_dir": base_dir})
    except ValidationError as e:
        raise _explain(e, section, defaults, place) from e


def _explain(
    error: ValidationError, section: Mapping[str, Any], defaults: _Defaults, place: Place
) -> ConfigError:
    first = (*error.errors(include_url=False)[0]["loc"], None)[0]
    inherited = first in defaults.values and first not in section
    return explain(error, defaults.place if inherited else place, _nearest_field)


class _Timing(Section, extra="ignore"):
    scrape_interval: Duration
    scrape_timeout: Duration = _DEFAULT_TIMEOUT


def _mapping(value: Any, place: Place) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(place, f"expected settings by name, got {type(value).__name__}")
    return value


def _sequence(document: Mapping[str, Any], key: str, place: Place) -> list[Any]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(place / key, f"expected a list, got {type(value).__name__}")
    return value


def _reject_unknown(section: Mapping[str, Any], known: set[str] | frozenset[str], place: Place) -> None:
    for key in section:
        if key not in known:
            raise _unknown(place / key, known)


def _reject_unsupported(section: Mapping[str, Any], place: Place) -> None:
    for key, value in section.items():
        if not value or not _is_unsupported(key):
            continue
        if key in _UNSUPPORTED:
            raise _wrong(place / key, _UNSUPPORTED[key])
        known = ", ".join(_SUPPORTED_DISCOVERY)
        raise _wrong(place / key, "not supported yet", hint=f"use one of {known}")


def _is_unsupported(key: Any) -> bool:
    other_discovery = str(key).endswith("_sd_configs") and key not in _SUPPORTED_DISCOVERY
    return key in _UNSUPPORTED or other_discovery


def _wrong(place: Place, message: str, *, hint: str | None = None) -> ConfigError:
    return ConfigError(f"{place}: {message}" if place.path else message, hint=hint, where=place.where)


def _unknown(place: Place, known: set[str] | frozenset[str]) -> UnknownSetting:
    return UnknownSetting(str(place), _nearest(str(place.path[-1]), known), where=place.where)


def _nearest_field(place: Place) -> str | None:
    return _nearest(str(place.path[-1]), _ALL_FIELDS)


_ALL_FIELDS: Final = frozenset(
    name
    for section in (ScrapeConfig, HttpSdConfig, KubernetesSdConfig, FileSdConfig, StaticConfig, RelabelConfig)
    for name in section.model_fields
)


def _nearest(key: str, known: set[str] | frozenset[str]) -> str | None:
    found = difflib.get_close_matches(key, sorted(known), n=1)
    return found[0] if found else None
