"""The server: how it listens, who may ask, and what it takes at once."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from pydantic import ByteSize, Field

from trilens.settings.duration import Duration
from trilens.settings.group import Texts
from trilens.settings.service import ServiceSettings


class ServerSettings(ServiceSettings):
    group: ClassVar[str] = "server"

    listen: str = Field(
        default="127.0.0.1:9333",
        description="Address and port. On anything but loopback a token is required.",
    )
    cors_origins: Texts = Field(
        default=(),
        description="Web origins whose pages may read the API from a browser, such as https://grafana.example.",
    )
    max_connections: int = Field(
        default=512,
        ge=1,
        description="Connections and running requests held at once; beyond it the answer is 503.",
    )
    max_body: ByteSize = Field(
        default=ByteSize(32 * 1024**2), description="The largest request body taken, remote write included."
    )
    shutdown_grace: Duration = Field(
        default=timedelta(seconds=10),
        description="How long a stop waits for requests that are still running.",
    )
