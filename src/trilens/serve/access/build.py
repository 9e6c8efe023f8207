"""The ways in that the settings want, put together."""

from __future__ import annotations

import logging
import ssl
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from trilens.model.access import is_loopback
from trilens.model.errors import ConfigError
from trilens.serve.access.access import Access, Lookout
from trilens.serve.access.audit_api import AuditApi, AuditSource
from trilens.serve.access.auth_api import AuthApi, Login
from trilens.serve.access.callers import Callers
from trilens.serve.access.doors import ServerToken, TokenDoor
from trilens.serve.access.limits import Limits
from trilens.serve.access.people import People
from trilens.serve.access.proxy_door import ProxyDoor
from trilens.serve.access.token_keeper import TokenKeeper
from trilens.serve.access.tokens_api import TokensApi
from trilens.serve.access.trail import AuditTrail
from trilens.settings.token_file import read_token_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.model.audit import AuditEntry
    from trilens.serve.access.doors import Door
    from trilens.serve.access.known_names import KnownNames
    from trilens.serve.access.token_keeper import Records
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute
    from trilens.settings.access import AccessSettings, OidcSettings
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_WISHES: Final = {
    "oidc": "log in at /auth/login",
    "proxy": "come through the proxy that knows you",
    "token": "send a token as Authorization: Bearer",
}


class AuditRecords(AuditSource, Protocol):
    def put(self, entry: AuditEntry) -> None: ...

    def settled(self, timeout_s: float) -> bool: ...

    def logged_out(self, since_ms: int) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class AccessApis:
    tokens: TokensApi
    audit: AuditApi
    auth: AuthApi

    def routes(self) -> list[GuardedRoute]:
        return [*self.tokens.routes(), *self.audit.routes(), *self.auth.routes()]


class AccessKeeper:
    """Made before the store's readers, and ends before the store does."""

    def __init__(self, settings: Settings, token: str | None, tokens: Records, audit: AuditRecords) -> None:
        wanted = settings.access
        self._audit = audit
        self._people = People(wanted.grants)
        self._tokens = TokenKeeper(tokens, wanted.tokens_file)
        secret = wanted.proxy.read_secret(settings.base_dir) if wanted.proxy is not None else None
        callers = Callers(wanted.proxy, secret)
        self._login = _login(wanted.oidc, settings, self._people) if wanted.oidc is not None else None
        doors: list[Door] = [ServerToken(token)] if token is not None else []
        if token is not None or wanted.has_door:
            doors.append(TokenDoor(self._tokens))
        if wanted.proxy is not None and wanted.has_proxy_door:
            doors.append(ProxyDoor(wanted.proxy, callers, self._people))
        if self._login is not None:
            doors.append(self._login.session)
        self._ways = _ways(wanted, bool(doors))
        limits = Limits(wanted.requests_per_s, wanted.intake_requests_per_s, wanted.failures_per_s)
        self.access = Access(doors, callers, limits, AuditTrail(audit), _wish(self._ways))
        looks: list[Callable[[], None]] = [self._tokens.look, self.access.trail.look]
        if self._login is not None:
            looks.append(self._look_who_left)
            self._look_who_left()
        self._lookout = Lookout(looks, self.access.trail.close)

    def apis(self, questions: Questions, known: KnownNames) -> AccessApis:
        return AccessApis(
            TokensApi(self._tokens, known, questions, is_asked=bool(self.access.doors)),
            AuditApi(self._audit, questions),
            AuthApi(self.access, self._ways, self._login),
        )

    def use(self, wanted: AccessSettings) -> None:
        """Takes over what may change while the server runs."""
        self._people.use(wanted.grants)

    @property
    def troubles(self) -> list[str]:
        return self._lookout.troubles

    def start(self) -> None:
        self._lookout.start()

    def stop(self) -> None:
        self._lookout.stop()

    def _look_who_left(self) -> None:
        """Also who logged out at another server, or before this one was started."""
        assert self._login is not None
        session = self._login.session
        session.heard(self._audit.logged_out(session.begins_counting_ms))


def check_access(
    settings: Settings, looking: Callable[[], AbstractContextManager[None]] = nullcontext
) -> None:
    """What may be wrong in the files that it names should be told before a store is opened; raises
    ConfigError. `looking` is around the reading of each."""
    wanted, folder = settings.access, settings.base_dir
    if wanted.tokens_file is not None:
        with looking():
            read_token_file(wanted.tokens_file)
    if wanted.proxy is not None:
        with looking():
            wanted.proxy.read_secret(folder)
    if wanted.oidc is None:
        return
    from trilens.serve.access.session import session_keys

    with looking():
        wanted.oidc.read_client_secret(folder)
    if wanted.session_key_file is not None:  # or one is made
        with looking():
            session_keys(wanted.session_key_file, settings.storage.data_dir)
    if wanted.oidc.ca_file is not None:
        with looking():
            _trust(folder / wanted.oidc.ca_file)


def _login(oidc: OidcSettings, settings: Settings, people: People) -> Login:
    # Few servers have it, and what it needs takes a fifth of a second to load.
    from trilens.serve.access.oidc.attempt import Attempts
    from trilens.serve.access.oidc.provider import Provider
    from trilens.serve.access.session import Cookie, Sealed, SessionDoor, session_keys

    server, folder = settings.server, settings.base_dir
    oidc.read_client_secret(folder)  # what may be wrong comes first
    keys = session_keys(settings.access.session_key_file, settings.storage.data_dir)
    is_secure = server.is_https
    if not is_secure and not is_loopback(urlsplit(server.links_begin).hostname or ""):
        log.warning("logins go over http, where anybody on the way can read them; see server.external_url")
    lasts_s = round(settings.access.session.total_seconds())
    return Login(
        oidc,
        Provider(
            oidc,
            f"{server.links_begin}/auth/callback",
            lambda: oidc.read_client_secret(folder),
            _trust(folder / oidc.ca_file) if oidc.ca_file is not None else True,
        ),
        Attempts(Sealed(keys, "attempt")),
        Cookie("trilens-login", is_secure=is_secure),
        SessionDoor(keys, Cookie("trilens-session", is_secure=is_secure), people, lasts_s),
        people,
    )


def _trust(file: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(f"cannot use the certificates {file}: {e}", hint="see access.oidc.ca_file") from e


def _ways(wanted: AccessSettings, is_asked: bool) -> tuple[str, ...]:
    ways = {"oidc": wanted.oidc is not None, "proxy": wanted.has_proxy_door, "token": is_asked}
    return tuple(name for name, is_there in ways.items() if is_there)


def _wish(ways: tuple[str, ...]) -> str:
    return "this server does not know you: " + ", or ".join(_WISHES[way] for way in ways)
