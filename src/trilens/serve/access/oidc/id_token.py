"""What a provider says of somebody, believed only when all of it fits."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jwt

from trilens.model.errors import LoginRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Signed with a key that only the provider has. With HS*, the client secret would do; with none, nothing.
ALGORITHMS: Final = (*_OF_RSA, "ES256", "ES384", "ES512", "EdDSA")
_KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})
_LEEWAY_S: Final = 60  # by so much our clock and the provider's may differ
_NEEDED: Final = ["iss", "aud", "exp", "iat", "sub"]


class SigningKey(NamedTuple):
    """As the provider publishes it."""

    jwk: dict[str, Any]

    @property
    def id(self) -> object:
        return self.jwk.get("kid")

    def for_algorithm(self, algorithm: str) -> jwt.PyJWK:
        """Many keys name none: one of RSA is then for all of RSA's; of others the curve says which."""
        is_any = self.jwk["kty"] == "RSA" and not self.jwk.get("alg")
        return jwt.PyJWK(self.jwk, algorithm if is_any and algorithm in _OF_RSA else None)


def key_id(token: str) -> str | None:
    """Of the key that it says it is signed with; None where it does not say."""
    found = _header(token).get("kid")
    return found if isinstance(found, str) else None


def usable_keys(document: Mapping[str, Any]) -> list[SigningKey]:
    """Of a JWK set, those that sign."""
    keys = []
    for one in document.get("keys", ()):
        if not isinstance(one, dict) or one.get("kty") not in _KEY_TYPES or one.get("use", "sig") != "sig":
            continue
        try:
            jwt.PyJWK(one)
        except jwt.PyJWTError:
            continue  # of a kind that we do not know
        keys.append(SigningKey(one))
    return keys


def checked_claims(token: str, key: SigningKey, *, issuer: str, client_id: str, nonce: str) -> dict[str, Any]:
    algorithm = _header(token)["alg"]
    fitting = key.for_algorithm(algorithm)
    if algorithm != fitting.algorithm_name:
        told = f"signed by {algorithm!r}, and its key is for {fitting.algorithm_name!r}"
        raise LoginRefused(f"the ID token is not believed: {told}")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            fitting,
            algorithms=[algorithm],
            issuer=issuer,
            audience=client_id,
            leeway=_LEEWAY_S,
            options={"require": _NEEDED},
        )
    except jwt.PyJWTError as e:
        raise LoginRefused(f"the ID token is not believed: {e}") from e
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise LoginRefused("the ID token is not of this login: another nonce")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", client_id if not several else None) != client_id:
        raise LoginRefused("the ID token was issued for another client")
    return claims


def _header(token: str) -> dict[str, Any]:
    """What it says of itself; with one of ALGORITHMS."""
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError as e:
        raise LoginRefused(f"the provider's answer is no ID token: {e}") from e
    if header.get("alg") not in ALGORITHMS:
        raise LoginRefused(f"an ID token signed by {header.get('alg')!r} is not believed")
    return header
