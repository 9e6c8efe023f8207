"""What is scraped, in the words of a Prometheus configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from trilens.settings.group import Group


class ScrapeSettings(Group):
    """The contents of `global` and `scrape_configs` are read by the collector, which knows their keys."""

    config_file: Path | None = Field(
        default=None, description="A prometheus.yml whose `global` and `scrape_configs` are used."
    )
    global_config: dict[str, Any] = Field(
        default_factory=dict,
        alias="global",
        description="Prometheus's `global` section: scrape_interval, scrape_timeout, ...",
    )
    scrape_configs: list[dict[str, Any]] = Field(
        default_factory=list, description="Prometheus's `scrape_configs`, as Prometheus spells them."
    )

    @model_validator(mode="after")
    def _one_place(self) -> ScrapeSettings:
        if self.config_file is not None and (self.global_config or self.scrape_configs):
            raise ValueError("give scrape.config_file, or scrape_configs inline, not both")
        return self

    @property
    def anything(self) -> bool:
        return self.config_file is not None or bool(self.scrape_configs)

    def inline_document(self) -> dict[str, Any]:
        return {"global": self.global_config, "scrape_configs": self.scrape_configs}
