"""What counts for every job that is not written in the scrape configuration: its `global` all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.model.labels import make_labels
from trilens.settings.yaml_file import read_yaml

if TYPE_CHECKING:
    from trilens.model.labels import Labels
    from trilens.settings.tree import Settings

_INTERVAL: Final = "30s"  # as the Prometheus operator has it; dcgm-exporter looks no more often


def scrape_global(settings: Settings) -> dict[str, Any]:
    file = settings.scrape.config_file
    if file is None:
        given = settings.scrape.global_config
    else:
        given = (read_yaml(file, "scrape.config_file").tree or {}).get("global") or {}
    return {"scrape_interval": _INTERVAL, **given}


def external_labels(settings: Settings) -> Labels:
    """What a Prometheus would add to whatever it tells others; here templates of alerts may use them."""
    given = scrape_global(settings).get("external_labels") or {}
    return make_labels({str(name): str(value) for name, value in given.items()})
