"""How to reach a target or a discovery endpoint: Prometheus's HTTP client settings."""

from __future__ import annotations

import base64
import ssl
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator

from trilens.collect.config_section import ConfigPath, Secret, Section, Text
from trilens.collect.kubernetes.tls import load_chain
from trilens.collect.reach import Reach  # noqa: TC001  # pydantic reads it at run time
from trilens.model.errors import ConfigError
from trilens.model.masking import without_passwords
from trilens.settings.group import read_secret

TLS_VERSIONS: Final = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
TlsVersion = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class BasicAuth(Section):
    username: Text = ""
    username_file: ConfigPath | None = None
    password: Secret | None = None
    password_file: ConfigPath | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> BasicAuth:
        if self.username and self.username_file:
            raise ValueError("give username or username_file, not both")
        if self.password is not None and self.password_file:
            raise ValueError("give password or password_file, not both")
        return self

    def header(self) -> str:
        username = self.username
        if self.username_file is not None:
            username = read_secret(None, self.username_file, "the user name") or ""
        password = read_secret(self.password, self.password_file, "the password") or ""
        return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class Authorization(Section):
    type: str = "Bearer"
    credentials: Secret | None = None
    credentials_file: ConfigPath | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Authorization:
        if self.type.lower() == "basic":
            raise ValueError("use basic_auth for the type Basic")
        if self.credentials is not None and self.credentials_file:
            raise ValueError("give credentials or credentials_file, not both")
        return self

    def header(self) -> str:
        credentials = read_secret(self.credentials, self.credentials_file, "the credentials")
        return f"{self.type.strip()} {credentials or ''}".rstrip()


class TlsConfig(Section):
    ca: str | None = None
    ca_file: ConfigPath | None = None
    cert: str | None = None
    cert_file: ConfigPath | None = None
    key: Secret | None = None
    key_file: ConfigPath | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False
    min_version: TlsVersion | None = None
    max_version: TlsVersion | None = None

    @model_validator(mode="after")
    def _consistent(self) -> TlsConfig:
        for name in ("ca", "cert", "key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give {name} or {name}_file, not both")
        if (self.cert_file is None) != (self.key_file is None) or (self.cert is None) != (self.key is None):
            raise ValueError("a certificate and its key go together, both as files or both as texts")
        return self

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
            if self.cert is not None and self.key is not None:
                load_chain(context, self.cert, self.key.get_secret_value())
        except (OSError, ssl.SSLError, ValueError) as e:
            named = ", ".join(str(one) for one in (self.ca_file, self.cert_file, self.key_file) if one)
            of = f" ({named})" if named else ""  # Python does not say which of them is not there
            raise ConfigError(f"cannot use the certificates of tls_config{of}: {e}") from e
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.min_version is not None:
            context.minimum_version = TLS_VERSIONS[self.min_version]
        if self.max_version is not None:
            context.maximum_version = TLS_VERSIONS[self.max_version]
        return context


class HeaderValues(Section):
    values: tuple[Text, ...] = ()
    secrets: tuple[Secret, ...] = ()
    files: tuple[ConfigPath, ...] = ()

    def read(self) -> list[str]:
        texts = [*self.values, *(secret.get_secret_value() for secret in self.secrets)]
        return texts + [read_secret(None, file, "a header") or "" for file in self.files]


class HttpConfig(Section):
    """The part that scrape configs and HTTP discovery share."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    bearer_token: Secret | None = None
    bearer_token_file: ConfigPath | None = None
    tls_config: TlsConfig = TlsConfig()
    follow_redirects: bool = True
    enable_http2: bool = True  # accepted and without effect: HTTP/1.1 with kept connections is what we speak
    proxy_url: str | None = None
    http_headers: dict[str, HeaderValues] = Field(default_factory=dict)

    _reach: Reach | None = PrivateAttr(default=None)  # nothing that a file can say

    @property
    def reach(self) -> Reach | None:
        """Where it may lead; None is anywhere, as who writes settings may want."""
        return self._reach

    def within(self, reach: Reach) -> Self:
        """The same for targets that others tell of: that reach no further."""
        narrower = self.model_copy()
        narrower._reach = reach
        return narrower

    @field_validator("proxy_url")
    @classmethod
    def _is_http_proxy(cls, value: str | None) -> str | None:
        if value and urlsplit(value).scheme not in ("http", "https"):
            raise ValueError(f"{without_passwords(value)!r} is not an http:// or https:// URL")
        return value or None

    @model_validator(mode="after")
    def _one_way_to_sign_in(self) -> HttpConfig:
        ways = (self.basic_auth, self.authorization, self.bearer_token, self.bearer_token_file)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("give one of basic_auth, authorization, bearer_token and bearer_token_file")
        return self

    def request_headers(self) -> list[tuple[str, str]]:
        """What every request carries; secret files are read anew each time, for they rotate."""
        headers = [(name, text) for name, values in self.http_headers.items() for text in values.read()]
        signed = self.basic_auth or self.authorization
        if signed is None and (self.bearer_token is not None or self.bearer_token_file is not None):
            signed = Authorization.model_construct(
                credentials=self.bearer_token, credentials_file=self.bearer_token_file
            )
        if signed is not None:
            headers.append(("Authorization", signed.header()))
        return headers
