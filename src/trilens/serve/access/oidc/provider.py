"""A provider of OpenID Connect, asked over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import httpx

from trilens.model.errors import LoginRefused, ProviderAway
from trilens.serve.access.oidc.id_token import checked_claims, key_id, usable_keys

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from trilens.serve.access.oidc.id_token import SigningKey
    from trilens.settings.access import OidcSettings

_TIMEOUT_S: Final = 10.0
_KNOWN_S: Final = 3600.0  # after which it is asked again for its addresses and keys
_KEYS_AGAIN_S: Final = 30.0  # at the soonest: a token with a made-up key must not have it asked each time


class Addresses(NamedTuple):
    authorize: str
    token: str
    keys: str
    userinfo: str | None
    takes_basic: bool  # the client's secret by basic auth


class Provider:
    """Of one event loop."""

    def __init__(
        self,
        settings: OidcSettings,
        redirect_uri: str,
        read_secret: Callable[[], str | None],
        trust: ssl.SSLContext | bool = True,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._read_secret = read_secret
        self._trust = trust
        self._clock_s = clock_s
        self._asking = asyncio.Lock()
        self._addresses: Addresses | None = None
        self._addresses_s = 0.0
        self._keys: list[SigningKey] = []
        self._keys_s = 0.0

    async def login_url(self, state: str, nonce: str, challenge: str) -> str:
        addresses = await self._found()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(addresses.authorize).query else "?"
        return f"{addresses.authorize}{joint}{urlencode(query)}"

    async def claims(self, code: str, verifier: str, nonce: str) -> dict[str, Any]:
        """Of whoever that code was given for. Raises LoginRefused, or ProviderAway."""
        addresses = await self._found()
        given = await self._redeem(addresses, code, verifier)
        token = given.get("id_token")
        if not isinstance(token, str):
            raise LoginRefused("the provider sent no ID token")
        key = await self._key(addresses, key_id(token))
        settings = self._settings
        claims = checked_claims(token, key, issuer=settings.issuer, client_id=settings.client_id, nonce=nonce)
        wanted = (settings.user_claim, settings.groups_claim)
        access = given.get("access_token")
        if addresses.userinfo and isinstance(access, str) and any(name not in claims for name in wanted):
            # Some providers say more there than in the token.
            told = await self._json("GET", addresses.userinfo, headers={"Authorization": f"Bearer {access}"})
            if told.get("sub") != claims["sub"]:
                raise LoginRefused("the provider tells of somebody else than who logged in")
            claims = {**told, **claims}
        return claims

    async def _redeem(self, addresses: Addresses, code: str, verifier: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
            "client_id": self._settings.client_id,
        }
        secret = self._read_secret()
        basic = None
        if secret is not None and addresses.takes_basic:
            basic = (quote(self._settings.client_id, safe=""), quote(secret, safe=""))
        elif secret is not None:
            form["client_secret"] = secret
        return await self._json("POST", addresses.token, data=form, auth=basic)

    async def _found(self) -> Addresses:
        async with self._asking:
            is_fresh = self._clock_s() - self._addresses_s < _KNOWN_S
            if self._addresses is None or not is_fresh:
                self._addresses = await self._discover()
                self._addresses_s = self._clock_s()
            return self._addresses

    async def _discover(self) -> Addresses:
        issuer = self._settings.issuer
        told = await self._json("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if told.get("issuer") != issuer:
            raise ProviderAway(
                f"the provider calls itself {told.get('issuer')!r}, and not {issuer!r}",
                hint="set access.oidc.issuer to exactly that, if it is meant",
            )
        ways = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Addresses(
            self._address(told, "authorization_endpoint"),
            self._address(told, "token_endpoint"),
            self._address(told, "jwks_uri"),
            self._address(told, "userinfo_endpoint") if told.get("userinfo_endpoint") else None,
            "client_secret_basic" in ways,
        )

    def _address(self, told: dict[str, Any], name: str) -> str:
        found = told.get(name)
        allowed = {"https", urlsplit(self._settings.issuer).scheme}
        if not isinstance(found, str) or urlsplit(found).scheme not in allowed:
            raise ProviderAway(f"the provider names no usable {name}: {found!r}")
        return found

    async def _key(self, addresses: Addresses, wanted: str | None) -> SigningKey:
        async with self._asking:
            age_s = self._clock_s() - self._keys_s
            key = self._known_key(wanted)
            if not self._keys or age_s > _KNOWN_S or (key is None and age_s > _KEYS_AGAIN_S):
                self._keys = usable_keys(await self._json("GET", addresses.keys))
                self._keys_s = self._clock_s()
                key = self._known_key(wanted)
        if key is None:
            raise LoginRefused("the ID token is signed with a key that is not the provider's")
        return key

    def _known_key(self, wanted: str | None) -> SigningKey | None:
        if wanted is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.id == wanted), None)

    async def _json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        where = urlsplit(url).netloc
        try:
            async with httpx.AsyncClient(verify=self._trust, timeout=_TIMEOUT_S) as client:
                answer = await client.request(method, url, **more)
            body = answer.json()
        except httpx.HTTPError as e:
            raise ProviderAway(f"no answer from {where}: {e or type(e).__name__}") from e
        except ValueError as e:
            raise ProviderAway(f"{where} answered HTTP {answer.status_code}, and not in JSON") from e
        if not isinstance(body, dict) or answer.status_code >= 500:
            raise ProviderAway(f"{where} answered HTTP {answer.status_code}")
        if answer.status_code != 200:
            why = body.get("error_description") or body.get("error") or f"HTTP {answer.status_code}"
            raise LoginRefused(f"the provider refuses: {why}")
        return body
