"""What every long-running process of Trilens has: where it listens, who may ask, and how it logs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from trilens.model.access import is_loopback
from trilens.model.errors import ConfigError
from trilens.settings.group import Group, HeaderSecret, Texts, read_header_secret

_SHORT: Final = 16  # characters of a token: fewer are soon tried through


class ServiceSettings(Group):
    group: ClassVar[str]  # its name among the settings, for errors that say what to set

    listen: str = Field(description="Address and port. On anything but loopback a token is required.")
    token: HeaderSecret | None = Field(
        default=None, description="Every client sends it as a bearer token, or as the password of basic auth."
    )
    token_file: Path | None = Field(default=None, description="A file that holds the token.")
    tls_cert_file: Path | None = Field(default=None, description="A certificate: https is spoken.")
    tls_key_file: Path | None = Field(default=None, description="The key of that certificate.")
    allowed_hosts: Texts = Field(
        default=(),
        description="Host names that requests may carry besides localhost and loopback addresses when there "
        "is no token: for a reverse proxy on the same machine.",
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
    def _key_with_certificate(self) -> Self:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file and tls_key_file go together")
        return self

    @property
    def address(self) -> tuple[str, int]:
        return split_address(self.listen)

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.address[0])

    def read_token(self) -> str | None:
        return read_header_secret(self.token, self.token_file, f"the {self.group} token")

    def required_token(self, *, is_guarded: bool = False, other_ways: str = "") -> str | None:
        """The token to ask for; raises when the address is reachable from elsewhere and there is none, unless
        something else finds out who asks. `other_ways` to do so are told with the error."""
        token = self.read_token()
        if token is None and not self.on_loopback and not is_guarded:
            raise ConfigError(
                f"refusing to listen on {self.listen} without a token: anyone could read everything",
                hint=f"set {self.group}.token or {self.group}.token_file "
                f"(TRILENS_{self.group.upper()}_TOKEN){other_ways}, or listen on 127.0.0.1",
            )
        return token

    def doubt_about(self, token: str | None) -> str | None:
        if token is None or len(token) >= _SHORT:
            return None
        short = f"the {self.group}'s token has fewer than {_SHORT} characters"
        return f"{short}, and may be guessed: openssl rand -hex 24 makes one"


def split_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT`, which means every address."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9333")
    if ":" in host and not bracketed:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, for example [::1]:9333")
    return (host[1:-1] if bracketed else host) or "0.0.0.0", int(port)  # noqa: S104 - said by the user
