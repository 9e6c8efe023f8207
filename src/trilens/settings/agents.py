"""Which agents the server asks, and whether it is one itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from trilens.settings.duration import Duration
from trilens.settings.group import AsWord, Group


class AgentsSettings(Group):
    """The contents of `scrape_config` are read by the collector, which knows their keys."""

    scrape_config: dict[str, Any] = Field(
        default_factory=dict,
        description="The agents, as one entry of Prometheus's `scrape_configs` has targets: static_configs, "
        "kubernetes_sd_configs, authorization, tls_config, ... Each is scraped as job `trilens-agent`, and "
        "asked for faults and processes.",
    )
    interval: Duration = Field(
        default=timedelta(seconds=15), description="How often agents are asked for faults and processes."
    )
    this_machine: Annotated[Literal["auto", "on", "off"], AsWord] = Field(
        default="auto",
        description="Whether `trilens up` reads this machine itself, by the settings of `agent`. `auto` does "
        "where it has GPUs and the settings name neither a cluster nor an agent.",
    )
    cluster: str = Field(
        default="machines",
        min_length=1,
        description="What stands for the cluster of workloads that are processes and in no pod.",
    )

    @field_validator("interval")
    @classmethod
    def _is_positive(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            raise ValueError("must be above 0")
        return value

    @field_validator("cluster")
    @classmethod
    def _fits_a_path(cls, value: str) -> str:
        if "/" in value:
            raise ValueError(f"{value!r} must not hold a slash")
        return value
