"""Which run of an experiment tracker this process is, by what the tracker's own library says once loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOOKS: Final = 600  # ticks of about a second: a tracker's run begins before or soon after ours


class TrackerWatch:
    """Looks once a tick, and adds to the facts of the run when a tracker's run has begun.

    Only libraries that the program itself has loaded are asked, and only for what they have in memory.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None], environ: Mapping[str, str]) -> None:
        self._tell = tell
        self._environ = environ
        self._known: list[dict[str, str]] = []
        self._looks_left = _LOOKS

    def look(self) -> None:
        if self._looks_left == 0:
            return
        self._looks_left -= 1
        found = [one for one in (_mlflow(self._environ), _wandb(self._environ)) if one is not None]
        if found and found != self._known:
            self._known = found
            self._tell({"trackers": found})


def _mlflow(environ: Mapping[str, str]) -> dict[str, str] | None:
    mlflow = sys.modules.get("mlflow")
    run = _active_run(mlflow)
    if run is not None and mlflow is not None:
        where = without_passwords(str(mlflow.get_tracking_uri()))
        return {"system": "mlflow", "run": run.info.run_id, "where": where}
    if named := environ.get("MLFLOW_RUN_ID"):
        where = without_passwords(environ.get("MLFLOW_TRACKING_URI", ""))
        return {"system": "mlflow", "run": named, "where": where}
    return None


def _active_run(mlflow: Any) -> Any:
    """`active_run` tells only of the thread that asks, and this is not the program's; what tells of all of
    them is not public, so that it may not be there."""
    of_all = getattr(sys.modules.get("mlflow.tracking.fluent"), "_get_latest_active_run", None)
    of_this = getattr(mlflow, "active_run", None)
    return (of_all() if callable(of_all) else None) or (of_this() if callable(of_this) else None)


def _wandb(environ: Mapping[str, str]) -> dict[str, str] | None:
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is not None:
        return {"system": "wandb", "run": str(run.id), "where": f"{run.entity}/{run.project}"}
    if named := environ.get("WANDB_RUN_ID"):
        where = f"{environ.get('WANDB_ENTITY', '')}/{environ.get('WANDB_PROJECT', '')}".strip("/")
        return {"system": "wandb", "run": named, "where": where}
    return None
