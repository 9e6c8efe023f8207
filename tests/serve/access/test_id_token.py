"""ID tokens that are not what they should be: each forged in one way."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from trilens.model.errors import LoginRefused, ProviderAway
from trilens.serve.access.auth_api import user_of
from trilens.serve.access.oidc.id_token import checked_claims, key_id, usable_keys
from trilens.serve.access.oidc.provider import Provider
from trilens.settings.access import OidcSettings

ISSUER = "https://login.example"
OURS = rsa.generate_private_key(public_exponent=65537, key_size=2048)
THEIRS = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: rsa.RSAPrivateKey, kid: str = "k1") -> dict[str, Any]:
    public: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**public, "kid": kid, "use": "sig", "alg": "RS256"}


def claims(**other: Any) -> dict[str, Any]:
    now = int(time.time())
    told = {"iss": ISSUER, "aud": "trilens", "sub": "1", "nonce": "n", "iat": now, "exp": now + 300, **other}
    return {name: value for name, value in told.items() if value is not None}


def signed(key: Any = OURS, algorithm: str = "RS256", kid: str | None = "k1", **other: Any) -> str:
    return jwt.encode(claims(**other), key, algorithm, headers={"kid": kid} if kid else None)


def checked(token: str, published: dict[str, Any] | None = None) -> dict[str, Any]:
    key_id(token)
    (key,) = usable_keys({"keys": [published or jwk(OURS)]})
    return checked_claims(token, key, issuer=ISSUER, client_id="trilens", nonce="n")


def test_one_that_is_right() -> None:
    assert checked(signed())["sub"] == "1"
    assert checked(signed(aud=["trilens", "other"], azp="trilens"))["sub"] == "1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"iss": f"{ISSUER}/"},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": ["trilens", "other"]},
        {"aud": ["trilens", "other"], "azp": "other"},
        {"azp": "other"},
        {"exp": int(time.time()) - 3600},
        {"nbf": int(time.time()) + 3600},
        {"iat": int(time.time()) + 3600},
        {"nonce": "of another login"},
        {"nonce": None},
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"aud": None},
        {"iss": None},
    ],
)
def test_one_claim_that_is_wrong(wrong: dict[str, Any]) -> None:
    with pytest.raises(LoginRefused):
        checked(signed(**wrong))


def test_one_that_somebody_else_signed() -> None:
    with pytest.raises(LoginRefused, match="not believed"):
        checked(signed(THEIRS))


def test_one_that_nobody_signed() -> None:
    with pytest.raises(LoginRefused, match="'none' is not believed"):
        checked(jwt.encode(claims(), None, "none"))


def test_one_signed_with_what_everybody_knows() -> None:
    """The public key taken for the secret of HS256, which PyJWT itself would refuse to do."""
    public = OURS.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    parts = [{"alg": "HS256", "typ": "JWT", "kid": "k1"}, claims()]
    unsigned = b".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts)
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(unsigned, public)
    forged = unsigned + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")
    with pytest.raises(LoginRefused, match="'HS256' is not believed"):
        checked(forged.decode())


def test_one_that_was_changed_on_the_way() -> None:
    head, body, signature = signed().split(".")
    with pytest.raises(LoginRefused):
        checked(f"{head}.{body[:-2]}AA.{signature}")


def test_secrets_and_keys_for_encryption_sign_nothing() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}
    assert usable_keys({"keys": [secret, {**jwk(OURS), "use": "enc"}, {"kty": "new"}, "nonsense"]}) == []


class Told(Provider):
    """A provider whose answers are known."""

    def __init__(self, keys: list[dict[str, Any]], token: str, **other: Any) -> None:
        self.now_s = 1000.0
        settings = OidcSettings(issuer=ISSUER, client_id="trilens", user_claim="sub", groups_claim="sub")
        super().__init__(
            settings, "https://t.example/auth/callback", lambda: None, clock_s=lambda: self.now_s
        )
        self.jwks, self.token, self.asked = keys, token, [""]
        self.userinfo: dict[str, Any] = {}
        self.configuration = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            **other,
        }

    async def _json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        self.asked.append(url.removeprefix(ISSUER))
        if url.endswith("/keys"):
            return {"keys": self.jwks}
        if url.endswith("/userinfo"):
            return self.userinfo
        given = {"id_token": self.token, "access_token": "a"}
        return given if url.endswith("/token") else self.configuration


def test_a_key_that_is_changed_is_asked_for_but_not_too_often() -> None:
    provider = Told([jwk(OURS)], signed())

    async def log_in() -> dict[str, Any]:
        return await provider.claims("code", "verifier", "n")

    assert asyncio.run(log_in())["sub"] == "1"
    provider.token = signed(THEIRS, kid="k2")
    with pytest.raises(LoginRefused, match="a key that is not the provider's"):
        asyncio.run(log_in())
    assert provider.asked.count("/keys") == 1  # a moment ago: strangers do not have it asked each time
    provider.jwks = [jwk(THEIRS, "k2")]
    provider.now_s += 31
    assert asyncio.run(log_in())["sub"] == "1"
    provider.token = signed()
    with pytest.raises(LoginRefused, match="a key that is not the provider's"):
        asyncio.run(log_in())


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://login.example/token"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
    ],
)
def test_a_provider_that_says_something_odd_of_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProviderAway):
        asyncio.run(Told([jwk(OURS)], signed(), **wrong).claims("code", "verifier", "n"))


def test_what_is_told_of_somebody_else_than_who_logged_in_is_not_believed() -> None:
    provider = Told([jwk(OURS)], signed(), userinfo_endpoint=f"{ISSUER}/userinfo")
    provider._settings = provider._settings.model_copy(update={"user_claim": "email"})
    provider.userinfo = {"sub": "1", "email": "ada@example.test", "iss": "https://evil.example"}
    told = asyncio.run(provider.claims("code", "verifier", "n"))
    assert (told["email"], told["iss"]) == ("ada@example.test", ISSUER)
    provider.userinfo["sub"] = "2"
    with pytest.raises(LoginRefused, match="somebody else"):
        asyncio.run(provider.claims("code", "verifier", "n"))


def test_one_that_names_another_algorithm_than_its_key_is_for() -> None:
    token = jwt.encode(claims(), OURS, "RS256", headers={"kid": "k1", "alg": "RS512"})
    with pytest.raises(LoginRefused, match="not believed"):
        checked(token)


RSA_ALONE = {name: value for name, value in jwk(OURS).items() if name != "alg"}
ON_CURVE = ec.generate_private_key(ec.SECP384R1())


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_that_names_no_algorithm_is_for_each_of_its_type(algorithm: str) -> None:
    assert checked(signed(algorithm=algorithm), RSA_ALONE)["sub"] == "1"
    with pytest.raises(LoginRefused, match="Signature verification failed"):
        checked(signed(THEIRS, algorithm), RSA_ALONE)


def test_the_curve_says_for_which_algorithm_a_key_is() -> None:
    public: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(ON_CURVE.public_key(), as_dict=True)
    assert checked(signed(ON_CURVE, "ES384"), public)["sub"] == "1"
    with pytest.raises(LoginRefused, match="signed by 'PS256', and its key is for 'ES384'"):
        checked(signed(algorithm="PS256"), public)


def test_one_signed_by_what_its_key_is_not_for() -> None:
    with pytest.raises(LoginRefused, match="not believed: signed by 'ES384', and its key is for 'RS256'"):
        checked(signed(ON_CURVE, "ES384"), RSA_ALONE)
    with pytest.raises(LoginRefused, match="not believed: signed by 'PS256', and its key is for 'RS256'"):
        checked(signed(algorithm="PS256"))


@pytest.mark.parametrize("verified", [False, "false"])
def test_an_address_that_nobody_verified_is_nobodys(verified: object) -> None:
    told = {"email": "root@example.test", "email_verified": verified}
    with pytest.raises(LoginRefused, match="not verified"):
        user_of(told, "email")
    assert user_of({**told, "email_verified": True}, "email") == "root@example.test"
    assert user_of({**told, "sub": "1"}, "sub") == "1"
