"""The server: how it listens, who may ask, and what it takes at once."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator

from trilens.settings.duration import Duration
from trilens.settings.group import Texts
from trilens.settings.service import ServiceSettings


class ServerSettings(ServiceSettings):
    group: ClassVar[str] = "server"

    listen: str = Field(
        default="127.0.0.1:9333",
        description="Address and port. On anything but loopback a token is required, or one of the other "
        "ways in that `access` has.",
    )
    external_url: str | None = Field(
        default=None,
        description="Where people reach this server, such as https://trilens.example: links in alerts begin "
        "with it. By default this host's name and the port.",
    )
    cors_origins: Texts = Field(
        default=(),
        description="Web origins whose pages may read the API from a browser, such as https://grafana.example.",
    )
    max_connections: int = Field(
        default=2048,
        ge=1,
        description="Connections held at once, from when they are accepted, and running requests. Beyond it "
        "those that wait for a next request are closed, the longest first; where all are busy, the answer is "
        "503.",
    )
    max_connections_per_address: int | None = Field(
        default=None,
        ge=1,
        description="Of these, how many one address (of IPv6, each /64) may hold; half of them by default. "
        "Loopback and the proxies in `access.proxy.trusted` may hold all.",
    )
    max_body: ByteSize = Field(
        default=ByteSize(32 * 1024**2), description="The largest request body taken, remote write included."
    )
    shutdown_grace: Duration = Field(
        default=timedelta(seconds=10),
        description="How long a stop waits for requests that are still running.",
    )

    @field_validator("external_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query:
            raise ValueError(f"{value!r} is not an address such as https://trilens.example")
        return value.rstrip("/")

    @property
    def is_https(self) -> bool:
        """As browsers see it: a proxy may speak it for us."""
        return self.tls_cert_file is not None or (self.external_url or "").startswith("https://")

    @property
    def links_begin(self) -> str:
        """`external_url`, or what it is by default."""
        if self.external_url:
            return self.external_url
        host, port = self.address
        name = socket.gethostname() if host in _EVERY_ADDRESS else f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls_cert_file else 'http'}://{name}:{port}"


_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
