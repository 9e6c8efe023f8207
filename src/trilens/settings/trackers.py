"""Which experiment trackers are followed, and what is written back to them."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from trilens.settings.duration import Interval
from trilens.settings.endpoint import EndpointSettings
from trilens.settings.group import Group, HeaderSecret, Texts, read_header_secret


class Followed(Group):
    interval: Interval = Field(
        default=timedelta(seconds=30), description="How often it is asked for what is new."
    )


class MlflowSettings(EndpointSettings, Followed):
    """With `url` set, that MLflow server is followed."""

    url: str | None = Field(default=None, description="The tracking server, such as http://mlflow:5000.")
    experiments: Texts = Field(default=(), description="Only these experiments, by name; all unless given.")
    write: bool = Field(
        default=False,
        description="Write cost, GPU-hours and GPU utilisation back to the runs that are known here.",
    )


class WandbSettings(EndpointSettings, Followed):
    """Folders need nothing else; projects need a key."""

    url: str | None = Field(
        default=None, description="The API to ask for projects, such as https://api.wandb.ai."
    )
    api_key: HeaderSecret | None = Field(default=None, description="The key of that API.")
    api_key_file: Path | None = Field(default=None, description="A file that holds the key.")
    projects: Texts = Field(default=(), description="What is followed there: entity/project.")
    folders: Texts = Field(
        default=(), description="Folders with runs that W&B keeps as files, offline ones too."
    )
    write: bool = Field(
        default=False, description="Add cost and GPU-hours to the summary of runs that are over."
    )

    @field_validator("projects")
    @classmethod
    def _have_an_entity(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for project in value:
            if project.count("/") != 1 or not all(project.split("/")):
                raise ValueError(f"{project!r} is not entity/project")
        return value

    def request_headers(self) -> dict[str, str]:
        headers = super().request_headers()
        key = read_header_secret(self.api_key, self.api_key_file, "the key of W&B")
        if key is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(f'api:{key}'.encode()).decode()}"
        return headers

    @model_validator(mode="after")
    def _can_be_asked(self) -> WandbSettings:
        if self.projects and (self.url is None or (self.api_key is None and self.api_key_file is None)):
            raise ValueError("projects need url, and api_key or api_key_file")
        return self


class TensorboardSettings(Followed):
    folders: Texts = Field(default=(), description="Folders with event files, at any depth.")
