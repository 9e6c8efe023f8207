"""What counts for every job that is not written in the scrape configuration: its `global` all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.settings.yaml_file import read_yaml

if TYPE_CHECKING:
    from trilens.settings.tree import Settings

_INTERVAL: Final = "30s"  # as the Prometheus operator has it; dcgm-exporter looks no more often


def scrape_global(settings: Settings) -> dict[str, Any]:
    file = settings.scrape.config_file
    if file is None:
        given = settings.scrape.global_config
    else:
        given = (read_yaml(file, "scrape.config_file").tree or {}).get("global") or {}
    return {"scrape_interval": _INTERVAL, **given}
