"""Which rules are evaluated."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, field_validator

from trilens.rules.thresholds import threshold_problem
from trilens.settings.duration import Duration
from trilens.settings.group import Group, Texts


class RulesSettings(Group):
    """Prometheus rule files, evaluated here: see rules.md. With `source.url` the other server evaluates
    rules: give it the files, also those of `trilens rules export`."""

    files: Texts = Field(
        default=(),
        description="Rule files; `*`, `?` and `[...]` stand for parts of a name, as in Prometheus.",
    )
    slo_files: Texts = Field(
        default=(),
        description="Files of objectives, of which rules are made (slo.md); names as in `files`.",
    )
    builtin: bool = Field(
        default=True,
        description="Evaluate the rules that Trilens ships (gpu-metrics.md); only without `source.url`.",
    )
    evaluation_interval: Duration = Field(
        default=timedelta(minutes=1), description="How often groups are evaluated that name no `interval`."
    )
    thresholds: dict[str, float] = Field(
        default_factory=dict,
        description="Other numbers for the alerts that Trilens ships, by name: alerts.md lists them all.",
    )

    @field_validator("evaluation_interval")
    @classmethod
    def _not_zero(cls, value: timedelta) -> timedelta:
        if value <= timedelta():
            raise ValueError("must be longer than 0")
        return value

    @field_validator("thresholds")
    @classmethod
    def _are_known(cls, value: dict[str, float]) -> dict[str, float]:
        if (problem := threshold_problem(value)) is not None:
            raise ValueError(problem)
        return value
