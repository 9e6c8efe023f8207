"""From what was discovered to what is scraped."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlencode

from trilens.collect.discovery.base import ADDRESS
from trilens.collect.relabel import relabel
from trilens.model.errors import ConfigError
from trilens.model.labels import Labels, make_labels
from trilens.model.masking import without_passwords
from trilens.settings.duration import duration_ms, format_duration

if TYPE_CHECKING:
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.discovery.base import TargetLabels

_SCHEME: Final = "__scheme__"
_PATH: Final = "__metrics_path__"
_INTERVAL: Final = "__scrape_interval__"
_TIMEOUT: Final = "__scrape_timeout__"
_PARAM: Final = "__param_"

Health = Literal["unknown", "up", "down"]


@dataclass(frozen=True, slots=True)
class Target:
    """Two targets with equal fields, discovered labels aside, are one."""

    job: str
    labels: Labels  # what its series carry
    discovered: Labels  # before relabelling, as it may be shown
    url: str
    interval_s: float
    timeout_s: float

    @property
    def key(self) -> tuple[Labels, str, float, float]:
        return self.labels, self.url, self.interval_s, self.timeout_s

    @property
    def shown_url(self) -> str:
        return without_passwords(self.url)

    @property
    def interval_ms(self) -> int:
        return round(self.interval_s * 1000)

    def wait_ms(self, seed: str, now_ms: int) -> int:
        """Until the first scrape.

        The moment within the interval hangs on the target and the seed alone, so that targets spread out
        and a restart does not move them.
        """
        digest = hashlib.blake2b(f"{seed}\0{self.labels}\0{self.url}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") - now_ms) % self.interval_ms


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How a target does; times are None until there was a scrape."""

    job: str
    labels: dict[str, str]
    discovered_labels: dict[str, str]
    scrape_url: str
    health: Health
    last_error: str
    last_scrape_s: float | None  # since the epoch
    last_duration_s: float | None
    interval_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class DroppedTarget:
    job: str
    discovered_labels: dict[str, str]
    reason: str = ""  # empty when relabelling dropped it


def build_target(discovered: TargetLabels, config: ScrapeConfig) -> Target | DroppedTarget:
    """Fill in what the job says, relabel, and read address, path and timing back from the labels."""
    before = _with_job_defaults(discovered, config)
    after = relabel(before, config.relabel_configs)
    if after is None:
        return DroppedTarget(config.job_name, _shown(before))
    try:
        interval_s = _seconds(after, _INTERVAL)
        timeout_s = _seconds(after, _TIMEOUT)
        if timeout_s > interval_s:
            raise ConfigError(f"{_TIMEOUT} is longer than {_INTERVAL}")
        url = _url(after, config)
    except ConfigError as e:
        return DroppedTarget(config.job_name, _shown(before), e.message)
    after.setdefault("instance", _without_user(after[ADDRESS]))
    return Target(
        job=config.job_name,
        labels=make_labels({name: value for name, value in after.items() if not name.startswith("__")}),
        discovered=make_labels(_shown(before)),
        url=url,
        interval_s=interval_s,
        timeout_s=timeout_s,
    )


def _shown(labels: TargetLabels) -> TargetLabels:
    """Without the passwords that addresses and URLs may hold."""
    shown = {name: without_passwords(value) for name, value in labels.items()}
    if ADDRESS in shown:
        shown[ADDRESS] = _without_user(shown[ADDRESS])
    return shown


def _without_user(address: str) -> str:
    return without_passwords(address) if "://" in address else address.rpartition("@")[2]


def _with_job_defaults(discovered: TargetLabels, config: ScrapeConfig) -> TargetLabels:
    defaults = {
        "job": config.job_name,
        _INTERVAL: format_duration(config.scrape_interval),
        _TIMEOUT: format_duration(config.scrape_timeout),
        _PATH: config.metrics_path,
        _SCHEME: config.scheme,
        **{_PARAM + name: values[0] for name, values in config.params.items() if values},
    }
    return {**defaults, **{name: value for name, value in discovered.items() if value}}


def _seconds(labels: TargetLabels, name: str) -> float:
    try:
        milliseconds = duration_ms(labels.get(name, ""))
    except ValueError as e:
        raise ConfigError(f"{name}: {e}") from e
    if milliseconds <= 0:
        raise ConfigError(f"{name} must be above 0")
    return milliseconds / 1000


def _url(labels: TargetLabels, config: ScrapeConfig) -> str:
    address = labels.get(ADDRESS, "")
    if not address:
        raise ConfigError("the target has no address")
    if "/" in address:
        raise ConfigError(f"{_without_user(address)!r} is not host:port")
    scheme = labels.get(_SCHEME, "")
    if scheme not in ("http", "https"):
        raise ConfigError(f"{scheme!r} is neither http nor https")
    path = labels.get(_PATH, "")
    params = {name: list(values) for name, values in config.params.items()}
    for label, value in labels.items():
        if label.startswith(_PARAM):
            params.setdefault(label[len(_PARAM) :], [""])[:1] = [value]
    query = urlencode(sorted(params.items()), doseq=True)
    slash = "" if path.startswith("/") or not path else "/"
    return f"{scheme}://{address}{slash}{path}" + (f"?{query}" if query else "")
