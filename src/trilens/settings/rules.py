"""Which rules are evaluated."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, field_validator

from trilens.settings.duration import Duration
from trilens.settings.group import Group, Texts


class RulesSettings(Group):
    """Prometheus rule files, evaluated here: see rules.md. With `source.url` the other server evaluates
    rules: give it the files, also those of `trilens rules export`."""

    files: Texts = Field(
        default=(),
        description="Rule files; `*`, `?` and `[...]` stand for parts of a name, as in Prometheus.",
    )
    builtin: bool = Field(
        default=True,
        description="Evaluate the rules that Trilens ships (gpu-metrics.md); only without `source.url`.",
    )
    evaluation_interval: Duration = Field(
        default=timedelta(minutes=1), description="How often groups are evaluated that name no `interval`."
    )

    @field_validator("evaluation_interval")
    @classmethod
    def _not_zero(cls, value: timedelta) -> timedelta:
        if value <= timedelta():
            raise ValueError("must be longer than 0")
        return value
