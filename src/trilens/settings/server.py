"""How the server listens, who may ask, and how it logs."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import ByteSize, Field, SecretStr, field_validator, model_validator

from trilens.settings.duration import Duration
from trilens.settings.group import Group, Texts, read_secret


class ServerSettings(Group):
    listen: str = Field(
        default="127.0.0.1:9333",
        description="Address and port. On anything but loopback a token is required.",
    )
    token: SecretStr | None = Field(
        default=None, description="Every client sends it as a bearer token, or as the password of basic auth."
    )
    token_file: Path | None = Field(default=None, description="A file that holds the token.")
    tls_cert_file: Path | None = Field(default=None, description="A certificate: the server speaks https.")
    tls_key_file: Path | None = Field(default=None, description="The key of that certificate.")
    allowed_hosts: Texts = Field(
        default=(),
        description="Host names that requests may carry besides localhost and loopback addresses when there "
        "is no token: for a reverse proxy on the same machine.",
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
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important message that is still written."
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="`text` for people, `json` for one JSON object a line."
    )

    @field_validator("listen")
    @classmethod
    def _has_port(cls, value: str) -> str:
        split_address(value)
        return value

    @model_validator(mode="after")
    def _key_with_certificate(self) -> ServerSettings:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file and tls_key_file go together")
        return self

    @property
    def address(self) -> tuple[str, int]:
        return split_address(self.listen)

    @property
    def on_loopback(self) -> bool:
        host = self.address[0]
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def read_token(self) -> str | None:
        return read_secret(self.token, self.token_file, "the server token")


def split_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT`, which means every address."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9333")
    if ":" in host and not bracketed:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, for example [::1]:9333")
    return (host[1:-1] if bracketed else host) or "0.0.0.0", int(port)  # noqa: S104 - said by the user
