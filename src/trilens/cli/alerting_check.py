"""What of `alerting` looks like a mistake: nobody would hear of it until an alert does not arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.settings.alerting import AlertingSettings


def check_alerting(alerting: AlertingSettings, folder: Path) -> Iterator[str]:
    """Files are found from `folder`, that of the settings."""
    named = {name for route in alerting.routes for name in route.to}
    for name, receiver in alerting.receivers.items():
        if alerting.routes and name not in named and receiver.kind != "alertmanager":
            yield f"no route leads to the receiver {name!r}"
        for setting, file in getattr(receiver.beside(folder), receiver.kind):
            if setting.endswith("_file") and file is not None and not file.exists():
                yield f"the receiver {name!r}: there is no file {file} yet"
    for place, route in enumerate(alerting.routes[:-1]):
        if not route.matchers and not route.keep_on:
            yield f"routes[{place}] has no matchers, so that those after it are never looked at"
            return
