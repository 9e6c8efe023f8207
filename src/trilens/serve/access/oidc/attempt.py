"""One login, from leaving for the provider to coming back: what the browser keeps of it meanwhile."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import LoginRefused
from trilens.serve.questions import clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.serve.access.session import Sealed

LASTS_S: Final = 600
_MOST: Final = 10_000  # attempts remembered as used
_LONGEST_PATH: Final = 2000


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    state: str
    nonce: str
    verifier: str
    to: str  # the page to go on with
    ends_ms: int

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Attempts:
    """Each may come back once."""

    def __init__(self, sealed: Sealed, now_ms: Callable[[], int] = clock_ms) -> None:
        self._sealed = sealed
        self._now_ms = now_ms
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self, to: str) -> tuple[Attempt, str]:
        """The attempt, and what the browser keeps of it."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Attempt(state, nonce, verifier, own_path(to), self._now_ms() + 1000 * LASTS_S)
        return attempt, self._sealed.seal(attempt)

    def is_one(self, kept: str | None) -> bool:
        """Whether what a browser keeps is of a login that was begun here."""
        return kept is not None and self._sealed.open(kept, Attempt) is not None

    def take(self, kept: str | None, state: str) -> Attempt:
        attempt = self._sealed.open(kept, Attempt) if kept else None
        if attempt is None:
            raise LoginRefused("this browser has begun no login here, or it has no cookies", hint="try again")
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            raise LoginRefused("this answer is of another login", hint="try again")
        if attempt.ends_ms <= self._now_ms():
            raise LoginRefused("the login took too long", hint="try again")
        if attempt.state in self._used:
            raise LoginRefused("this login was used already", hint="try again")
        self._used[attempt.state] = None
        if len(self._used) > _MOST:
            self._used.popitem(last=False)
        return attempt


def own_path(text: str) -> str:
    """A path of this server; the first page where it is anything else."""
    is_plain = all("!" <= one <= "~" for one in text) and "\\" not in text and len(text) <= _LONGEST_PATH
    return text if is_plain and text.startswith("/") and not text.startswith("//") else "/"
