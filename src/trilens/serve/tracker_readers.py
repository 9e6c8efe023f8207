"""The trackers that the settings name, each ready to be followed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trilens.serve.trackers import Following

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.collect.backfill import BackfillSink
    from trilens.collect.trackers.json_api import JsonApi
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.tracker_figures import Known
    from trilens.serve.trackers import Figures, TrackerReader
    from trilens.settings.endpoint import EndpointSettings
    from trilens.settings.trackers import Followed
    from trilens.settings.tree import Settings
    from trilens.store.tracked_runs import TrackedRunRecords


def follow_trackers(
    settings: Settings,
    records: TrackedRunRecords,
    samples: BackfillSink | None,
    known: Callable[[TrackedRun], Known | None],
) -> list[Following]:
    return [
        Following(reader, group.interval, records, samples, settings.storage.retention, figures)
        for reader, group, figures in _named(settings, known)
    ]


def names_trackers(settings: Settings) -> bool:
    named = (
        settings.mlflow.url,
        settings.wandb.projects,
        settings.wandb.folders,
        settings.tensorboard.folders,
    )
    return any(named)


def _named(
    settings: Settings, known: Callable[[TrackedRun], Known | None]
) -> Iterator[tuple[TrackerReader, Followed, Figures | None]]:
    # Their libraries are loaded only where a tracker is named: most servers follow none.
    from trilens.serve.write_back import ToMlflow, ToWandb, WriteBack

    mlflow, wandb, tensorboard = settings.mlflow, settings.wandb, settings.tensorboard
    if mlflow.url is not None:
        from trilens.collect.trackers.mlflow import MlflowServer

        server = MlflowServer(_api(mlflow, mlflow.url), mlflow.experiments)
        yield server, mlflow, WriteBack(known, ToMlflow(server)) if mlflow.write else None
    if wandb.projects and wandb.url is not None:
        from trilens.collect.trackers.wandb_api import WandbProject

        for name in wandb.projects:
            project = WandbProject(_api(wandb, wandb.url), name)
            yield project, wandb, WriteBack(known, ToWandb(project)) if wandb.write else None
    if wandb.folders:
        from trilens.collect.trackers.wandb_files import WandbFolder

        for folder in wandb.folders:
            yield WandbFolder(Path(folder)), wandb, None
    if tensorboard.folders:
        from trilens.collect.trackers.tensorboard import TensorBoardFolder

        for folder in tensorboard.folders:
            yield TensorBoardFolder(Path(folder)), tensorboard, None


def _api(endpoint: EndpointSettings, url: str) -> JsonApi:
    from trilens.collect.trackers.json_api import JsonApi

    tls = endpoint.tls() if url.startswith("https://") else False
    return JsonApi(url, endpoint.request_headers, tls, endpoint.timeout.total_seconds())
