"""Where the client commands find the server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.model.errors import ConfigError
from trilens.settings.files import read_text
from trilens.settings.header import UNSENDABLE, is_sendable
from trilens.settings.kept_logins import kept_login, logins_file

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SERVER: Final = "http://127.0.0.1:9333"
SERVER_VARIABLE: Final = "TRILENS_SERVER"
TOKEN_VARIABLE: Final = "TRILENS_TOKEN"  # noqa: S105 - a name, not a token
TOKEN_FILE_VARIABLE: Final = "TRILENS_TOKEN_FILE"  # noqa: S105 - likewise
_TRUST_VARIABLE: Final = "SSL_CERT_FILE"  # as other programs have it


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Plain, not pydantic: `trilens query` should answer before a validation library has loaded."""

    server: str
    token: str | None
    is_named: bool = True  # or nobody said which, and it is where one is by default
    is_login: bool = False  # the token is what trilens login keeps for this server
    trust: str | None = None  # a file of certificates, in place of those that the machine trusts

    def cannot_trust(self, error: OSError) -> ConfigError:
        """For who cannot read the certificates that are trusted."""
        return ConfigError(
            f"{self.trust or 'what this machine trusts'}: no certificates can be read: {error}",
            where=_TRUST_VARIABLE,
            hint="name a file of certificates in PEM, by its whole path",
        )


def load_client_settings(
    server: str | None = None, environ: Mapping[str, str] | None = None
) -> ClientSettings:
    environ = os.environ if environ is None else environ
    url = named_server(server, environ)
    token = environ.get(TOKEN_VARIABLE) or None
    if token is None and (file := environ.get(TOKEN_FILE_VARIABLE)):
        token = read_text(Path(file), TOKEN_FILE_VARIABLE).strip() or None
    login = kept_login(logins_file(environ), url) if token is None else None
    token = token or login
    if token is not None and not is_sendable(token):
        raise ConfigError(f"the token {UNSENDABLE}")
    return ClientSettings(
        url,
        token,
        is_named=bool(server or environ.get(SERVER_VARIABLE)),
        is_login=login is not None,
        trust=environ.get(_TRUST_VARIABLE) or None,
    )


def named_server(server: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    named = server or (os.environ if environ is None else environ).get(SERVER_VARIABLE)
    url = (named or DEFAULT_SERVER).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is not an http:// or https:// URL", hint=f"for example {DEFAULT_SERVER}")
    return url
