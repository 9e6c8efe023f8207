"""Another HTTP server that Trilens talks to: its address, how to sign in, and whom to trust."""

from __future__ import annotations

import base64
import ssl
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from trilens.model.errors import ConfigError
from trilens.model.masking import without_passwords
from trilens.settings.duration import Duration, Interval
from trilens.settings.group import Group, HeaderSecret, read_header_secret, read_secret


class EndpointSettings(Group):
    url: str | None = Field(default=None, description="Base URL, http or https.")
    bearer_token: HeaderSecret | None = Field(default=None, description="Sent as `Authorization: Bearer`.")
    bearer_token_file: Path | None = Field(default=None, description="A file that holds the bearer token.")
    username: str | None = Field(default=None, description="User of basic auth.")
    password: SecretStr | None = Field(default=None, description="Password of basic auth.")
    password_file: Path | None = Field(default=None, description="A file that holds that password.")
    ca_file: Path | None = Field(default=None, description="Certificates to trust instead of the system's.")
    cert_file: Path | None = Field(default=None, description="Our own certificate, for mutual TLS.")
    key_file: Path | None = Field(default=None, description="The key of that certificate.")
    insecure_skip_verify: bool = Field(default=False, description="Trust any certificate: to try out.")
    tenant: str | None = Field(
        default=None, description="The tenant, for Mimir, Thanos and others that hold several."
    )
    tenant_header: str = Field(default="X-Scope-OrgID", description="The header that carries the tenant.")
    headers: dict[str, HeaderSecret] = Field(
        default_factory=dict, description="More headers to send with every request."
    )
    timeout: Duration = Field(default=timedelta(seconds=30), description="The longest one request may take.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{without_passwords(value)!r} is not an http:// or https:// URL")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _consistent(self) -> EndpointSettings:
        if (self.bearer_token or self.bearer_token_file) and self.username:
            raise ValueError("give a bearer token or a user name, not both")
        if self._signs_in() and "@" in urlsplit(self.url or "").netloc:
            raise ValueError(
                "the URL holds a user, and the settings another way to sign in: give one of them"
            )
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("cert_file and key_file go together")
        return self

    def _signs_in(self) -> bool:
        """By a header, whatever the URL holds."""
        named = any(name.lower() == "authorization" for name in self.headers)
        return named or any((self.bearer_token, self.bearer_token_file, self.username))

    def request_headers(self) -> dict[str, str]:
        """What each request carries besides its own headers; secret files are read anew."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        token = read_header_secret(self.bearer_token, self.bearer_token_file, "the bearer token")
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        elif self.username is not None:
            password = read_secret(self.password, self.password_file, "the password") or ""
            pair = base64.b64encode(f"{self.username}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        if self.tenant is not None:
            headers[self.tenant_header] = self.tenant
        return headers

    def tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError(f"cannot use the TLS files for {without_passwords(self.url or '')}: {e}") from e
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class SourceSettings(EndpointSettings):
    """With `url` set, queries are answered by that Prometheus, Thanos, Mimir or VictoriaMetrics. What is
    known of runs, workloads, GPUs and events is kept here all the same."""

    url: str | None = Field(
        default=None, description="What stands before /api/v1, such as http://mimir:8080/prometheus."
    )


class RemoteWriteSettings(EndpointSettings):
    """With `url` set, Trilens's own series are pushed there, in addition to being served on /metrics."""

    url: str | None = Field(
        default=None, description="Where to post, such as http://prometheus:9090/api/v1/write."
    )

    interval: Interval = Field(default=timedelta(seconds=15), description="How often the series are sent.")
    labels: dict[str, str] = Field(
        default_factory=lambda: {"job": "trilens"}, description="Labels added to every series."
    )


class OtlpSettings(EndpointSettings):
    """With `url` set, steps and checkpoints of runs are sent there as OTLP traces."""

    url: str | None = Field(
        default=None, description="A collector, without /v1/traces, such as http://collector:4318."
    )

    interval: Interval = Field(default=timedelta(seconds=5), description="How often they are sent.")
