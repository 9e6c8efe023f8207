"""Logins as cookies that only this server, and those that share its key, can read or make."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from trilens.model.access import carried_token
from trilens.model.errors import ConfigError
from trilens.serve.questions import clock_ms
from trilens.settings.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.types import Scope

    from trilens.model.identity import Identity
    from trilens.serve.access.people import People

log = logging.getLogger(__name__)

HOW: Final = "session"
IN_TERMINAL: Final = "terminal"
_Kind = TypeVar("_Kind", bound=msgspec.Struct)

_KEY_FILE: Final = "session-key"
_CARRIED: Final = "trs_"  # how the text of a login begins that a terminal has
_LARGEST: Final = 4000  # bytes: what browsers keep of one cookie


class Session(msgspec.Struct, frozen=True, array_like=True):
    user: str
    groups: tuple[str, ...]
    begun_ms: int
    ends_ms: int


class Sealed:
    """Encrypted and authenticated. `purpose` keeps one kind of cookie from being taken for another."""

    def __init__(self, keys: MultiFernet, purpose: str) -> None:
        self._keys = keys
        self._purpose = purpose.encode() + b"\0"

    def seal(self, value: msgspec.Struct) -> str:
        return self._keys.encrypt(self._purpose + msgspec.json.encode(value)).decode()

    def open(self, text: str, kind: type[_Kind]) -> _Kind | None:
        """None where it is not ours, not whole, or another kind."""
        try:
            plain = self._keys.decrypt(text.encode("latin-1", "replace"))
            if not plain.startswith(self._purpose):
                return None
            return msgspec.json.decode(plain.removeprefix(self._purpose), type=kind)
        except (InvalidToken, msgspec.MsgspecError, UnicodeDecodeError):
            return None


class Cookie:
    """`__Host-` keeps other hosts of the same site from setting it; browsers want https for that."""

    def __init__(self, name: str, *, is_secure: bool) -> None:
        self.name = f"__Host-{name}" if is_secure else name
        self._is_secure = is_secure

    def read(self, headers: Headers) -> str | None:
        for line in headers.getlist("cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.name:
                    return value
        return None

    def write(self, response: Response, value: str, lasts_s: int) -> None:
        response.set_cookie(
            self.name, value, max_age=lasts_s, path="/", secure=self._is_secure, httponly=True, samesite="lax"
        )

    def delete(self, response: Response) -> None:
        response.delete_cookie(self.name, path="/", secure=self._is_secure, httponly=True, samesite="lax")


class SessionDoor:
    """What somebody may do is asked of the grants each time: a login outlives no grant. Who logs out is
    logged out everywhere: cookies from before then are worth nothing.

    A login can be carried from the browser to a terminal, which sends it as a token; it ends with the login
    that it was made in, and no further one can be made of it."""

    def __init__(
        self,
        keys: MultiFernet,
        cookie: Cookie,
        people: People,
        lasts_s: int,
        now_ms: Callable[[], int] = clock_ms,
    ) -> None:
        self._sealed = Sealed(keys, HOW)
        self._carried = Sealed(keys, IN_TERMINAL)
        self._cookie = cookie
        self._people = people
        self._lasts_s = lasts_s
        self._now_ms = now_ms
        self._leaving = threading.Lock()  # of who writes the next
        self._logged_out_ms: dict[str, int] = {}  # by user; of the time that a login lasts

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        for how, session in ((IN_TERMINAL, self._in_terminal(headers)), (HOW, self._in_browser(headers))):
            if session is not None:
                return self._people.identity(session.user, frozenset(session.groups), how)
        return None

    def ends_ms(self, headers: Headers) -> int | None:
        """When the login ends that the request carries; None where it carries none."""
        session = self._in_terminal(headers) or self._in_browser(headers)
        return session.ends_ms if session is not None else None

    def for_terminal(self, headers: Headers) -> str | None:
        """This browser's login as a terminal sends it; None where there is none."""
        session = self._in_browser(headers)
        return _CARRIED + self._carried.seal(session) if session is not None else None

    def begin(self, response: Response, user: str, groups: frozenset[str]) -> None:
        kept = tuple(sorted(self._people.named_groups(groups)))
        now_ms = self._now_ms()
        value = self._sealed.seal(Session(user, kept, now_ms, now_ms + 1000 * self._lasts_s))
        if len(value) > _LARGEST:
            raise ConfigError("this login has more groups in access.grants than a cookie holds")
        self._cookie.write(response, value, self._lasts_s)

    def end(self, response: Response, user: str | None) -> None:
        self._cookie.delete(response)
        if user is not None:
            self.heard({user: self._now_ms()})

    @property
    def begins_counting_ms(self) -> int:
        """A login from before is over by itself."""
        return self._now_ms() - 1000 * self._lasts_s

    def heard(self, told_ms: Mapping[str, int]) -> None:
        """Who logged out, and when, here or at another server. From any thread."""
        since_ms = self.begins_counting_ms
        with self._leaving:
            latest_ms = {user: t_ms for user, t_ms in self._logged_out_ms.items() if t_ms >= since_ms}
            for user, t_ms in told_ms.items():
                latest_ms[user] = max(t_ms, latest_ms.get(user, 0))
            self._logged_out_ms = latest_ms

    def _in_browser(self, headers: Headers) -> Session | None:
        value = self._cookie.read(headers)
        return self._valid(self._sealed.open(value, Session)) if value else None

    def _in_terminal(self, headers: Headers) -> Session | None:
        sent = (carried_token(headers.get("authorization", "")) or b"").decode("latin-1")
        if not sent.startswith(_CARRIED):
            return None
        return self._valid(self._carried.open(sent.removeprefix(_CARRIED), Session))

    def _valid(self, session: Session | None) -> Session | None:
        if session is None or session.ends_ms <= self._now_ms():
            return None
        return session if session.begun_ms > self._logged_out_ms.get(session.user, 0) else None


def session_keys(file: Path | None, data_dir: Path) -> MultiFernet:
    """One key a line, the first of which makes cookies: so they may be changed with nobody logged out."""
    if file is not None:
        return _keys(read_text(file, "the session key"), file)
    made = data_dir / _KEY_FILE
    if not made.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        _write_secret(made, Fernet.generate_key())
        log.info("made a key for logins", extra={"file": str(made)})
    return _keys(read_text(made, "the session key"), made)


def _keys(text: str, file: Path) -> MultiFernet:
    try:
        keys = [Fernet(line.strip()) for line in text.splitlines() if line.strip()]
        return MultiFernet(keys)
    except ValueError as e:
        raise ConfigError(
            f"{file} holds no session key: {e}", hint="one a line, each 32 random bytes in URL-safe base64"
        ) from e


def _write_secret(file: Path, secret: bytes) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as e:
        raise ConfigError(f"cannot write the session key {file}: {e.strerror or e}") from e
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(secret + b"\n")
        opened.flush()
        os.fsync(opened.fileno())
