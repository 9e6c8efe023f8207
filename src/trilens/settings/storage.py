"""Where samples are kept, for how long, and with how much memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import ByteSize, Field, SecretStr, field_validator, model_validator

from trilens.settings.duration import Duration, Interval
from trilens.settings.group import Group, read_secret

_BACKUPS: Final = "backups"  # in the data directory
_LEAST: Final = timedelta(minutes=1)  # between two backups


class StorageSettings(Group):
    data_dir: Path = Field(
        default=Path("trilens-data"),
        description="The directory of the embedded engine; made when it is not there.",
    )
    url: str | None = Field(
        default=None,
        description="A ClickHouse server to keep the data in instead, such as http://clickhouse:8123/trilens.",
    )
    username: str | None = Field(default=None, description="The user on that ClickHouse server.")
    password: SecretStr | None = Field(default=None, description="That user's password.")
    password_file: Path | None = Field(default=None, description="A file that holds the password.")
    cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="The name of the ClickHouse cluster that this server is part of, as its `remote_servers` "
        "has it: tables are replicated and spread over all of it ([clickhouse.md](clickhouse.md)).",
    )
    insert_quorum: str = Field(
        default="auto",
        pattern=r"^(auto|[1-9][0-9]*)$",
        coerce_numbers_to_str=True,
        description="On a cluster: on how many replicas an insert is once it counts as written; `auto` is "
        "most of them.",
    )
    retention: Duration = Field(default=timedelta(days=15), description="How long raw samples are kept.")
    retention_5m: Duration = Field(
        default=timedelta(days=90), description="How long 5-minute rollups are kept."
    )
    retention_1h: Duration = Field(
        default=timedelta(days=400), description="How long 1-hour rollups are kept."
    )
    retention_records: Duration = Field(
        default=timedelta(days=400),
        description="How long workloads, their members, phases and owners, machines, GPUs, who held them, "
        "events, findings, incidents, and runs with their checkpoints, notes and curves are kept after they "
        "were over. What lasts is kept.",
    )
    retention_steps: Duration = Field(
        default=timedelta(days=90),
        description="How long the steps of runs, which samples each of them saw, and files of evidence are "
        "kept. They grow with every step of every rank: about 40 bytes each, and 10 for each sample of a "
        "batch.",
    )
    retention_ledger: Duration = Field(
        default=timedelta(days=1095),
        description="How long the ledger's hours and days and imported history are kept; they go by months. "
        "About 10 bytes for each GPU, hour and bucket.",
    )
    out_of_order_time_window: Duration = Field(
        default=timedelta(0),
        description="A sample older than its series' newest one is taken when it lies at most so far behind "
        "the newest sample of all series, as in Prometheus.",
    )
    series_in_memory: Duration = Field(
        default=timedelta(hours=48),
        description="How long after its last sample a series is found without reading from disk.",
    )
    recent_memory: ByteSize = Field(
        default=ByteSize(640 * 1024**2),
        description="Memory for the recent window, which answers without reading from disk. A tenth comes on "
        "top, for longer ranges of few series that are asked for again.",
    )
    memory_limit: ByteSize = Field(
        default=ByteSize(1024**3),
        description="Memory the embedded engine may use for reads, writes and merges.",
    )

    backup_dir: Path | None = Field(
        default=None,
        description="Where backups are written to: [operations.md](operations.md#backup-and-restore). "
        "`backups` in the data directory if left out, and nowhere else in there; another disk is better.",
    )
    backup_every: Interval | None = Field(
        default=None,
        description="How often a backup is made, such as 1d; at least 1m. Only when asked for if left out.",
    )
    backup_keep: int = Field(
        default=7, ge=1, description="So many backups are kept; older ones are deleted after a new one."
    )

    @model_validator(mode="after")
    def _cluster_has_a_server(self) -> StorageSettings:
        if self.cluster is not None and self.url is None:
            raise ValueError("cluster is set, but no storage.url: name one of the cluster's servers there")
        return self

    @model_validator(mode="after")
    def _has_what_is_backed_up(self) -> StorageSettings:
        if self.url is not None and (self.backup_dir is not None or self.backup_every is not None):
            raise ValueError(
                "backup_dir and backup_every are of the embedded engine; with storage.url the tables are on "
                "a ClickHouse server, which makes its own backups (docs/operations.md)"
            )
        return self

    @model_validator(mode="after")
    def _backups_are_no_data(self) -> StorageSettings:
        if self.backup_dir is None:
            return self
        place, data = self.backup_dir.resolve(), self.data_dir.resolve()
        if place.is_relative_to(data) and not place.is_relative_to(data / _BACKUPS):
            raise ValueError(
                f"backup_dir {self.backup_dir} is among the data: leave it out, for {_BACKUPS} in data_dir, "
                "or, better, name a directory on another disk"
            )
        return self

    @field_validator("backup_every")
    @classmethod
    def _not_all_the_time(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value < _LEAST:
            raise ValueError("must be at least 1m: each backup copies and reads all the data")
        return value

    @property
    def backups(self) -> Path | None:
        """Where they lie; None where the tables are on a server, which makes its own."""
        return None if self.url is not None else self.backup_dir or self.data_dir / _BACKUPS

    def read_password(self) -> str | None:
        return read_secret(self.password, self.password_file, "the ClickHouse password")
