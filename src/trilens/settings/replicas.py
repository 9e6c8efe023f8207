"""Several servers of one Trilens, of which one works at a time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field, model_validator

from trilens.settings.duration import Interval
from trilens.settings.group import Group


class ReplicasSettings(Group):
    lease: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        description="A Kubernetes Lease, NAMESPACE/NAME: of the servers that name it one works, and the "
        "others take over when it is gone ([scale.md](scale.md#several-servers)). Needs `storage.url`.",
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="Where that Lease is, as kubectl has it; unless given, the cluster that Trilens runs in.",
    )
    context: str | None = Field(default=None, description="Of that file; its current one unless given.")
    address: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#@]+$",
        description="Where the others reach this server, such as http://10.0.0.7:9333. By default this "
        "host's name and the port.",
    )
    lease_duration: Interval = Field(
        default=timedelta(seconds=15),
        description="How long after the last word of the one that works another takes over. It stops by "
        "itself after two thirds of that.",
    )

    @model_validator(mode="after")
    def _lasts_long_enough(self) -> ReplicasSettings:
        if self.lease_duration < timedelta(seconds=3):
            raise ValueError("a lease_duration below 3 s is shorter than an API server may take to answer")
        if self.lease_duration.total_seconds() % 1:
            raise ValueError("a lease_duration is whole seconds")
        return self

    @property
    def namespace_and_name(self) -> tuple[str, str]:
        assert self.lease is not None
        namespace, _, name = self.lease.partition("/")
        return namespace, name
