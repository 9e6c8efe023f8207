"""Every token there is: those that were made, also by other servers meanwhile, and those of a file."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.access_token import AccessToken, digest_of, new_secret, text_of
from trilens.model.errors import ConfigError, NotFound, RequestError, StoreError
from trilens.serve.questions import clock_ms
from trilens.settings.files import stamp_of
from trilens.settings.token_file import read_token_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.model.identity import Grant

log = logging.getLogger(__name__)

_USE_MS: Final = 3_600_000  # how exactly it is known when one was last used
_KEPT_S: Final = 10.0


class Records(Protocol):
    def made(self, token: AccessToken) -> None: ...

    def revoked(self, id: str, by: str, t_ms: int) -> None: ...

    def used(self, id: str, t_ms: int) -> None: ...

    def settled(self, timeout_s: float) -> bool: ...

    def every(self) -> list[AccessToken]: ...


class TokenKeeper:
    """Thread-safe; `find` never waits."""

    def __init__(
        self, records: Records, file: Path | None = None, now_ms: Callable[[], int] = clock_ms
    ) -> None:
        self._records = records
        self._file = file
        self._now_ms = now_ms
        self._changing = threading.Lock()
        self._declared = {one.id: one for one in read_token_file(file)} if file is not None else {}
        self._stamp = _stamp(file)
        self._made: dict[str, AccessToken] = {}
        self._known: dict[str, AccessToken] = {}
        self._used_ms: dict[str, int] = {}  # as this process saw it
        self.look()

    def find(self, id: str) -> AccessToken | None:
        return self._known.get(id)

    def every(self) -> list[AccessToken]:
        found = sorted(self._known.values(), key=lambda one: (one.created_ms or 0, one.name, one.id))
        return [replace(one, used_ms=self._used_ms.get(one.id, one.used_ms)) for one in found]

    def make(self, name: str, grant: Grant, expires_ms: int | None, by: str) -> tuple[AccessToken, str]:
        """The token and its text, which is known to nobody afterwards. On disk when it returns."""
        if expires_ms is not None and expires_ms <= self._now_ms():
            raise RequestError("the token would be over before it is made")
        given = new_secret()
        token = AccessToken(given.id, name, digest_of(given.secret), grant, self._now_ms(), by, expires_ms)
        with self._changing:
            self._records.made(token)
            self._settle()
            self._know({**self._made, token.id: token})
        return token, text_of(given)

    def revoke(self, id: str, by: str) -> AccessToken:
        """On disk when it returns."""
        with self._changing:
            token = self._known.get(id)
            if token is None:
                raise NotFound(f"there is no token {id!r}", hint="trilens token list has them")
            if token.is_declared:
                raise RequestError(f"{id!r} is declared in {self._file}", hint="take it out of that file")
            if token.revoked_ms is None:
                now_ms = self._now_ms()
                self._records.revoked(id, by, now_ms)
                token = replace(token, revoked_ms=now_ms, revoked_by=by)
                self._know({**self._made, id: token})  # at once, whatever the disk says
                self._settle()
            return token

    def note_use(self, token: AccessToken) -> None:
        """From the event loop, for every request."""
        now_ms = self._now_ms()
        used_ms = self._used_ms.get(token.id, token.used_ms)
        if used_ms is not None and now_ms - used_ms < _USE_MS:
            return
        self._used_ms[token.id] = now_ms
        if not token.is_declared:
            self._records.used(token.id, now_ms)

    def look(self) -> None:
        """Takes over what was changed elsewhere: in the file and in the records, each also where the other
        cannot be read. Raises TrilensError where one of them cannot."""
        with self._changing:
            try:
                self._look_at_file()
            finally:
                made = {one.id: self._still_revoked(one) for one in self._records.every()}
                self._know(made)

    def _look_at_file(self) -> None:
        stamp = _stamp(self._file)
        if self._file is None or stamp == self._stamp:
            return
        self._declared = {one.id: one for one in read_token_file(self._file)}
        self._stamp = stamp
        self._know(self._made)
        log.info("the tokens file is taken over", extra={"tokens": len(self._declared)})

    def _still_revoked(self, token: AccessToken) -> AccessToken:
        """What was revoked here stays so, also where no disk has taken it yet."""
        known = self._made.get(token.id)
        if token.revoked_ms is not None or known is None or known.revoked_ms is None:
            return token
        return replace(token, revoked_ms=known.revoked_ms, revoked_by=known.revoked_by)

    def _know(self, made: dict[str, AccessToken]) -> None:
        self._made = made
        self._known = {**made, **self._declared}

    def _settle(self) -> None:
        if not self._records.settled(_KEPT_S):
            raise StoreError("this is not on disk, and may not be: see the server's log")


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    try:
        return stamp_of(file) if file is not None else None
    except OSError as e:
        raise ConfigError(f"cannot read the tokens file {file}: {e.strerror or e}") from e
