"""Who is told of incidents and alerts: one class for each kind of receiver."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from trilens.model.errors import ConfigError
from trilens.settings.duration import Interval
from trilens.settings.endpoint import EndpointSettings
from trilens.settings.group import Group, HeaderSecret, Texts, read_header_secret, read_secret
from trilens.settings.service import split_address

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ADDRESS: Final = re.compile(r"[^@\s]+@[^@\s]+")
_UNKNOWN: Final = "https://elsewhere.invalid/"  # stands where a URL, a key or a password is to be
_absent: ContextVar[list[str] | None] = ContextVar("absent", default=None)


@contextmanager
def absent_variables() -> Iterator[list[str]]:
    """Of settings that are read here for another machine: variables that are not set are no error, and their
    names are in the list afterwards."""
    names: list[str] = []
    token = _absent.set(names)
    try:
        yield names
    finally:
        _absent.reset(token)


def _from_environment(secret: SecretStr) -> SecretStr:
    """`${NAME}` is what that variable holds."""
    named = _VARIABLE.fullmatch(secret.get_secret_value())
    if named is None:
        return secret
    value = os.environ.get(named[1], "").strip()
    if not value:
        absent = _absent.get()
        if absent is None:
            raise ValueError(f"the environment has no {named[1]}")
        absent.append(named[1])
        value = _UNKNOWN
    return SecretStr(value)


Secret = Annotated[SecretStr, AfterValidator(_from_environment)]


def _one_of(value: object | None, file: Path | None, name: str) -> None:
    if (value is None) == (file is None):
        raise ValueError(f"give {name} or {name}_file" + (", not both" if file is not None else ""))


def _checked_url(url: str, what: str) -> str:
    """An error must not show it: whoever has it can post."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{what} is not an http:// or https:// URL")
    return url


class ReceivingEndpoint(EndpointSettings):
    """Its secrets may come from the environment, too."""

    bearer_token: Annotated[HeaderSecret, AfterValidator(_from_environment)] | None = Field(
        default=None, description="Sent as `Authorization: Bearer`."
    )
    password: Secret | None = Field(default=None, description="Password of basic auth.")
    timeout: Interval = Field(default=timedelta(seconds=10), description="The longest one request may take.")


class AlertmanagerSettings(ReceivingEndpoint):
    """Gets all alerts, as from a Prometheus: routes, silences and groups are its own."""

    url: str | None = Field(default=None, description="One Alertmanager, such as http://alertmanager:9093.")
    urls: Texts = Field(default=(), description="Several of one cluster: each of them is told.")

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.urls or ((self.url,) if self.url else ())

    @field_validator("urls")
    @classmethod
    def _are_http(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        checked = [cls._is_http(url) or "" for url in urls]
        if len(set(checked)) < len(checked):
            raise ValueError("one of them is given twice")
        return tuple(checked)

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if bool(self.url) == bool(self.urls):
            raise ValueError("give url, or urls for several, and not both")
        return self


class SlackSettings(Group):
    """An incoming webhook, of Slack or of what speaks like it."""

    url: Secret | None = Field(default=None, description="The webhook's URL, which is a secret.")
    url_file: Path | None = Field(default=None, description="A file that holds the URL.")
    timeout: Interval = Field(default=timedelta(seconds=10), description="The longest one request may take.")

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        _one_of(self.url, self.url_file, "url")
        if self.url is not None:
            try:
                _checked_url(self.url.get_secret_value(), "the webhook's URL")
            except ConfigError as e:
                raise ValueError(e.message) from e
        return self

    def read_url(self) -> str:
        """Raises ConfigError."""
        what = "the webhook's URL"
        return _checked_url(read_secret(self.url, self.url_file, what) or "", what)


class PagerdutySettings(Group):
    """Events API v2."""

    routing_key: Secret | None = Field(default=None, description="The integration key of a service.")
    routing_key_file: Path | None = Field(default=None, description="A file that holds the key.")
    url: str = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        description="Where events go; https://events.eu.pagerduty.com/v2/enqueue in Europe.",
    )
    timeout: Interval = Field(default=timedelta(seconds=10), description="The longest one request may take.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        try:
            return _checked_url(value, repr(value))
        except ConfigError as e:
            raise ValueError(e.message) from e

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        _one_of(self.routing_key, self.routing_key_file, "routing_key")
        return self

    def read_key(self) -> str:
        """Raises ConfigError."""
        return read_header_secret(self.routing_key, self.routing_key_file, "the routing key") or ""


class WebhookSettings(ReceivingEndpoint):
    """Gets what an Alertmanager posts to webhooks, and more."""

    url: str | None = Field(default=None, description="Where it is posted.")
    url_file: Path | None = Field(default=None, description="A file that holds the URL: it may be a secret.")
    secret: Secret | None = Field(default=None, description="Posts are signed with it (HMAC-SHA256).")
    secret_file: Path | None = Field(default=None, description="A file that holds that secret.")

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        _one_of(self.url, self.url_file, "url")
        return self

    def read_url(self) -> str:
        """Raises ConfigError."""
        if self.url is not None:
            return self.url
        what = "the webhook's URL"
        return _checked_url(read_secret(None, self.url_file, what) or "", what)

    def read_signing_secret(self) -> str | None:
        """Raises ConfigError."""
        return read_secret(self.secret, self.secret_file, "the webhook's secret")


class MailSettings(Group):
    server: str = Field(description="HOST:PORT of the mail server, such as smtp.example:587.")
    sender: str = Field(alias="from", description="The address it comes from.")
    to: Texts = Field(description="The addresses it goes to.")
    starttls: bool = Field(default=True, description="Encrypt the connection; refuse a server that cannot.")
    tls: bool = Field(default=False, description="Speak TLS from the first byte, as on port 465.")
    username: str | None = Field(default=None, description="User of the mail server.")
    password: Secret | None = Field(default=None, description="That user's password.")
    password_file: Path | None = Field(default=None, description="A file that holds the password.")
    ca_file: Path | None = Field(default=None, description="Certificates to trust instead of the system's.")
    insecure_skip_verify: bool = Field(default=False, description="Trust any certificate: to try out.")
    timeout: Interval = Field(
        default=timedelta(seconds=20),
        description="The longest one step may take; all of a mail, three times as long.",
    )

    @field_validator("server")
    @classmethod
    def _has_port(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("to")
    @classmethod
    def _goes_somewhere(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one address")
        for address in value:
            _check_address(address)
        return value

    @field_validator("sender")
    @classmethod
    def _comes_from_somewhere(cls, value: str) -> str:
        _check_address(value)
        return value

    @model_validator(mode="after")
    def _keeps_the_password_safe(self) -> Self:
        has_password = self.password is not None or self.password_file is not None
        if has_password != (self.username is not None):
            raise ValueError("username and a password go together")
        if has_password and not (self.starttls or self.tls):
            raise ValueError("a password would be sent for all to read: leave starttls or tls on")
        return self

    @property
    def address(self) -> tuple[str, int]:
        return split_address(self.server)

    def read_password(self) -> str | None:
        """Raises ConfigError."""
        return read_secret(self.password, self.password_file, "the password of the mail server")

    def tls_context(self) -> ssl.SSLContext:
        """Raises ConfigError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError(f"cannot use the TLS files for {self.server}: {e}") from e
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _check_address(text: str) -> None:
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not an address such as oncall@example.com")


KINDS: Final = ("alertmanager", "slack", "pagerduty", "webhook", "mail")


class ReceiverSettings(Group):
    """Exactly one of its kinds is given."""

    alertmanager: AlertmanagerSettings | None = None
    slack: SlackSettings | None = None
    pagerduty: PagerdutySettings | None = None
    webhook: WebhookSettings | None = None
    mail: MailSettings | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError(f"a receiver is exactly one of {', '.join(KINDS)}")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    def beside(self, folder: Path) -> ReceiverSettings:
        """The same, its files found from the folder of the settings file."""
        part: Group = getattr(self, self.kind)
        files = {name: folder / value.expanduser() for name, value in part if isinstance(value, Path)}
        return self.model_copy(update={self.kind: part.model_copy(update=files)}) if files else self
