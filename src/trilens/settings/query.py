"""Limits of a PromQL query."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from trilens.settings.duration import Duration
from trilens.settings.group import Group


class QuerySettings(Group):
    timeout: Duration = Field(
        default=timedelta(minutes=2), description="The longest a query may run; a request may ask for less."
    )
    max_samples: int = Field(
        default=50_000_000, ge=1, description="Samples and result points one query may hold in memory."
    )
    max_series: int = Field(default=1_000_000, ge=1, description="Series one selector may match.")
    lookback_delta: Duration = Field(
        default=timedelta(minutes=5),
        description="How old a sample may be and still be an instant selector's value.",
    )
    concurrency: int = Field(
        default=8,
        ge=1,
        description="Queries evaluated side by side; more wait their turn. One identity has three quarters "
        "of these places at the most.",
    )
    per_identity: int = Field(
        default=256,
        ge=1,
        description="Queries of one identity that run or wait at once; beyond it the answer is 429.",
    )
