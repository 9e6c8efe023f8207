"""Where samples are kept, for how long, and with how much memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import ByteSize, Field, SecretStr

from trilens.settings.duration import Duration
from trilens.settings.group import Group, read_secret


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

    def read_password(self) -> str | None:
        return read_secret(self.password, self.password_file, "the ClickHouse password")
