"""A token of a person or a program: whose it is, what it may do, until when. Its secret is kept nowhere."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final, NamedTuple

from trilens.model.identity import Grant  # noqa: TC001 - msgspec reads the types

_PREFIX: Final = "trl"  # by which scanners for leaked secrets know it
_ID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz"  # no digits: YAML would take some for numbers
_ID_LENGTH: Final = 12
_SECRET_BYTES: Final = 32


class Presented(NamedTuple):
    """What a token's text holds."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True)
class AccessToken:
    id: str
    name: str
    digest: str  # SHA-256 of the secret, in hex
    grant: Grant
    created_ms: int | None = None  # None where a file declares it
    created_by: str = ""
    expires_ms: int | None = None
    revoked_ms: int | None = None
    revoked_by: str = ""
    used_ms: int | None = None  # to the hour or so
    is_declared: bool = False  # by access.tokens_file, and revoked only there

    def is_valid(self, now_ms: int) -> bool:
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)

    def fits(self, secret: str) -> bool:
        return hmac.compare_digest(digest_of(secret), self.digest)


def new_secret() -> Presented:
    id = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
    return Presented(id, secrets.token_urlsafe(_SECRET_BYTES))


def text_of(token: Presented) -> str:
    return f"{_PREFIX}_{token.id}_{token.secret}"


def read_token(text: str) -> Presented | None:
    """None where it is not one of ours."""
    prefix, _, rest = text.partition("_")
    id, _, secret = rest.partition("_")
    return Presented(id, secret) if prefix == _PREFIX and id and secret else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
