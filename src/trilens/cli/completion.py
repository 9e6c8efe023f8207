"""Names for the shell to complete, as the server knows them; none, and no word, where it is away."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from typer import Context  # noqa: TC002 - typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Ask = Callable[[str, dict[str, str]], Any]

_PATIENCE_S: Final = 0.5  # whoever pressed tab waits
_MOST: Final = "200"


def workload_names(context: Context, incomplete: str) -> list[str]:
    return _completed(context, incomplete, _workloads)


def run_names(context: Context, incomplete: str) -> list[str]:
    return _completed(context, incomplete, _runs)


def incident_ids(context: Context, incomplete: str) -> list[str]:
    return _completed(context, incomplete, _incidents)


def experiment_names(context: Context, incomplete: str) -> list[str]:
    return _completed(context, incomplete, _experiments)


def subjects(context: Context, incomplete: str) -> list[str]:
    """Whatever a case can be about."""
    return _completed(context, incomplete, _workloads, _incidents)


def _workloads(ask: Ask, incomplete: str) -> Iterator[str]:
    for one in ask("/api/workloads", {}):
        yield f"{one['namespace']}/{one['name']}" if "/" in incomplete else one["name"]


def _runs(ask: Ask, incomplete: str) -> Iterator[str]:
    for one in ask("/api/runs", {"limit": _MOST})["runs"]:
        yield one["run"]
        if one["name"]:
            yield f"{one['experiment']}/{one['name']}" if "/" in incomplete else one["name"]


def _incidents(ask: Ask, _: str) -> Iterator[str]:
    return (one["id"] for one in ask("/api/incidents", {"all": "true"}))


def _experiments(ask: Ask, _: str) -> Iterator[str]:
    return (one["experiment"] for one in ask("/api/experiments", {}) if one["experiment"])


def _completed(context: Context, incomplete: str, *sources: Callable[[Ask, str], Iterable[str]]) -> list[str]:
    """What is known when patience is at its end. A daemon may go on: the process ends without it."""
    from trilens.cli.client import Client
    from trilens.model.errors import TrilensError

    found: dict[str, None] = {}

    def look() -> None:
        try:
            with Client(context.params.get("server"), timeout_s=_PATIENCE_S) as client:
                for source in sources:
                    for name in source(lambda path, params: client.get(path, params)["data"], incomplete):
                        if name.startswith(incomplete):
                            found[name] = None
        except (TrilensError, KeyError, TypeError):  # away, or a server of another kind
            return

    asking = threading.Thread(target=look, daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return sorted(found.copy())
