"""Whether a request that changes something may have been made by a page of somebody else.

A browser sends cookies, and a proxy its word, with every request, also with those that a foreign page makes:
who is known by these must show that the page is one of ours. A token is sent only by who has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.serve.access import proxy_door

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from trilens.model.identity import Identity
    from trilens.settings.server import ServerSettings

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SENT_BY_ITSELF: Final = frozenset({"session", proxy_door.HOW})


class Origins:
    def __init__(self, server: ServerSettings) -> None:
        self._shared = frozenset(origin.lower().rstrip("/") for origin in server.cors_origins)
        self._is_https = server.is_https
        self._own = _origin_of(server.external_url) if server.external_url else None

    def is_shared(self, headers: Headers) -> bool:
        """With a page that the settings name."""
        return headers.get("origin", "").lower() in self._shared

    def refusal(self, identity: Identity | None, headers: Headers) -> str | None:
        """Why nothing may be changed by this request; None where it may."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if identity is not None and identity.how in _SENT_BY_ITSELF:
            if (origin is not None and self._is_own(origin, headers)) or (
                origin is None and site == "same-origin"
            ):
                return None
            return "refused: whoever is logged in by a browser changes things on pages of this server only"
        if self.is_shared(headers):
            return None
        is_foreign = site == "cross-site" if origin is None else not self._is_own(origin, headers)
        return (
            "refused: a page of another site may not post here (see server.cors_origins)"
            if is_foreign
            else None
        )

    def _is_own(self, origin: str, headers: Headers) -> bool:
        named, host = origin.lower(), headers.get("host", "").lower()
        if named == self._own:
            return True
        scheme, _, rest = named.partition("://")
        # Whoever sits on the network may answer for any name over http.
        return host != "" and rest == host and (scheme == "https" or not self._is_https)


def _origin_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}".lower()
