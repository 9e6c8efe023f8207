"""How a cluster's API server is reached, and one way to it: the service account of the pod we run in."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from trilens.collect.kubernetes.tls import Pem, TlsConfig
from trilens.model.errors import ConfigError
from trilens.settings.files import read_text
from trilens.settings.header import UNSENDABLE, is_sendable
from trilens.settings.kubernetes import in_cluster_server

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Entry:
    """The way to the API server for the next request, and who is asking."""

    server: str
    tls: TlsConfig
    headers: tuple[tuple[str, str], ...] = ()
    server_name: str | None = None  # that its certificate must have, where it is not the URL's
    proxy: str | None = None


class Access(Protocol):
    async def entry(self) -> Entry:
        """For the next request. Credentials that expire or rotate are the current ones."""

    def refused(self, entry: Entry) -> None:
        """The server does not know who this is (401): what was remembered for it is not to be used again."""


class InClusterAccess:
    """The service account of the pod. The kubelet replaces its token about every hour."""

    def __init__(self, folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> None:
        self._server = in_cluster_server(environ)
        self._token = folder / "token"
        self._tls = TlsConfig(authority=Pem("the service account's ca.crt", file=folder / "ca.crt"))
        self._read()

    async def entry(self) -> Entry:
        return self._read()

    def refused(self, entry: Entry) -> None:
        pass  # the files are read for every request

    def _read(self) -> Entry:
        token = read_token(self._token, "the service account's token")
        return Entry(self._server, self._tls, (bearer(token),))


def bearer(token: str) -> tuple[str, str]:
    if not is_sendable(token):
        raise ConfigError(f"the token for the Kubernetes API {UNSENDABLE}")
    return "Authorization", f"Bearer {token}"


def basic(username: str, password: str) -> tuple[str, str]:
    return "Authorization", "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def read_token(file: Path, what: str) -> str:
    token = read_text(file, what).strip()
    if not token:
        raise ConfigError(f"{what} {file} is empty")
    return token
