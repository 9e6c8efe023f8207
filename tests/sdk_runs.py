"""Runs as a program begins them, whose records a test can read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import trilens
from records_server import RecordsServer, listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.sdk.run import Run


class Told:
    """What a server was told, by section."""

    def __init__(self, server: RecordsServer) -> None:
        self._server = server

    def batches(self) -> list[dict[str, Any]]:
        return self._server.all_batches()

    def tokens(self) -> set[str | None]:
        """As requests had them."""
        return {request.token for request in self._server.requests}

    def section(self, name: str) -> list[dict[str, Any]]:
        return [one for batch in self._server.all_batches() for one in batch.get(name, ())]

    def steps(self) -> list[dict[str, Any]]:
        """Each with its number, time, phases and values; what it does not have is left out."""
        steps: list[dict[str, Any]] = []
        for batch in self._server.all_batches():
            columns = batch.get("steps", {})
            for i in range(len(columns.get("n", ()))):
                step: dict[str, Any] = {}
                for name, column in columns.items():
                    if isinstance(column, dict):
                        step[name] = {k: v[i] for k, v in column.items() if v[i] is not None}
                    elif column[i] is not None:
                        step[name] = column[i]
                steps.append(step)
        return steps

    def last(self, name: str) -> dict[str, Any]:
        """The section that a batch has once, as it was told last."""
        return [batch[name] for batch in self._server.all_batches() if name in batch][-1]


@contextmanager
def begun(folder: Path, *arguments: Any, **options: Any) -> Iterator[tuple[Run, Told]]:
    """A run and what its server was told of it: all of it, once the run is finished."""
    server = RecordsServer()
    with listening(server) as url:
        chosen = {"server": url, "spool": folder / "spool", "metrics": ":0", **options}
        run = trilens.init(*arguments, **chosen)
        try:
            yield run, Told(server)
        finally:
            run.finish()
