"""Who may come in, besides whoever has the server's own token, and what they may do."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from trilens.model.access import is_loopback
from trilens.model.grants import grant_of
from trilens.settings.duration import Interval
from trilens.settings.group import Group, HeaderSecret, Texts, read_header_secret, read_secret

if TYPE_CHECKING:
    from trilens.model.identity import Grant

EVERYBODY: Final = "*"  # whom the provider or the proxy knows


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        try:
            ipaddress.ip_network(text)
        except ValueError as e:
            raise ValueError(f"{text!r} is not a network such as 10.0.0.0/8: {e}") from e
    return texts


Networks = Annotated[Texts, AfterValidator(_networks)]


class GrantSettings(Group):
    """Those users, and who is in one of those groups, have these rights; in these clusters and of these
    teams only, where any are named."""

    users: Texts = ()
    groups: Texts = ()
    rights: Texts
    clusters: Texts = ()
    teams: Texts = ()

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.users and not self.groups:
            raise ValueError(f"name users or groups; {EVERYBODY!r} is everybody who can log in")
        grant_of(self.rights, self.clusters, self.teams)
        return self

    @property
    def grant(self) -> Grant:
        return grant_of(self.rights, self.clusters, self.teams)

    def is_for(self, user: str, groups: frozenset[str]) -> bool:
        return EVERYBODY in self.users or user in self.users or not groups.isdisjoint(self.groups)


class OidcSettings(Group):
    """A provider of OpenID Connect that people log in with."""

    issuer: str  # its URL, as it names itself
    client_id: str
    client_secret: SecretStr | None = None  # none: a public client, by PKCE alone
    client_secret_file: Path | None = None
    scopes: Texts = ("openid", "email", "profile")
    user_claim: str = "email"  # what somebody is called in grants and in the audit
    groups_claim: str = "groups"
    ca_file: Path | None = None  # certificates to trust instead of the system's

    @field_validator("issuer")
    @classmethod
    def _is_secure(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{value!r} is not an address such as https://login.example")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ValueError(f"{value!r}: anybody on the way could be anybody; it must be https")
        return value

    @field_validator("scopes")
    @classmethod
    def _has_openid(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return value if "openid" in value else ("openid", *value)

    def read_client_secret(self, folder: Path) -> str | None:
        """`folder` is where the settings file lies. Read each time: mounted secrets rotate."""
        file = folder / self.client_secret_file if self.client_secret_file is not None else None
        return read_secret(self.client_secret, file, "the client secret")


class ProxySettings(Group):
    """A reverse proxy that has found out who asks, and says so in headers; one that only speaks TLS, and does
    not know who asks, has no `user_header`."""

    trusted: Networks  # whose connections are believed
    user_header: str | None = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"  # by commas
    client_header: str = "X-Forwarded-For"  # from where somebody asks: rate limits, told addresses, audit
    secret_header: str = "X-Trilens-Proxy-Secret"  # noqa: S105 - the name of one
    secret: HeaderSecret | None = None  # where given, the proxy must send it, too
    secret_file: Path | None = None

    @field_validator("trusted")
    @classmethod
    def _trusts_somebody(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name the networks of the trusted proxies")
        return value

    @model_validator(mode="after")
    def _is_no_stranger(self) -> Self:
        has_secret = self.secret is not None or self.secret_file is not None
        every = [one for one in self.trusted if ipaddress.ip_network(one).prefixlen == 0]
        if every and not has_secret:
            raise ValueError(
                f"trusted: {every[0]} is everybody, and each could say to be anybody: set a secret"
            )
        return self

    @property
    def names_people(self) -> bool:
        return self.user_header is not None

    @property
    def claims(self) -> frozenset[str]:
        """The headers that say who somebody is, and from where, in lower case."""
        named = (self.user_header, self.groups_header, self.client_header, self.secret_header)
        return frozenset(name.lower() for name in named if name is not None)

    def read_secret(self, folder: Path) -> str | None:
        file = folder / self.secret_file if self.secret_file is not None else None
        return read_header_secret(self.secret, file, "the proxy's secret")


class AccessSettings(Group):
    """People come by OpenID Connect or through a proxy and have what `grants` say; programs come with tokens
    (`trilens token`). [security.md](security.md) has all of it. `grants` are taken over on SIGHUP or a POST
    to `/-/reload`."""

    tokens_file: Path | None = Field(
        default=None,
        description="Tokens that are declared, by the hashes of their secrets; read again when it changes.",
    )
    oidc: OidcSettings | None = Field(default=None, description="How people log in, in the browser.")
    proxy: ProxySettings | None = Field(
        default=None, description="A reverse proxy whose headers say who asks, and from where."
    )
    grants: tuple[GrantSettings, ...] = Field(
        default=(), description="What users and groups may do; several that match add up."
    )
    session: Interval = Field(
        default=timedelta(hours=8), description="How long a login lasts; then the provider is asked again."
    )
    session_key_file: Path | None = Field(
        default=None,
        description="The key of login cookies, which servers behind one address share. By default one that "
        "is made in the data directory.",
    )
    requests_per_s: float = Field(
        default=500,
        gt=0,
        description="How many requests one identity may make a second, for long; ten seconds' worth at once.",
    )
    intake_requests_per_s: float = Field(
        default=5000, gt=0, description="The same for sending samples, records and heartbeats."
    )
    failures_per_s: float = Field(
        default=10,
        gt=0,
        description="How many requests without a valid login are answered a second for one address.",
    )

    told_addresses: Literal["peer", "pods", "any"] = Field(
        default="pods",
        description="Which addresses programs may tell that are then scraped: of who tells it (`peer`), also "
        "of the known pod that it says it is (`pods`), or `any` but loopback, link-local and the like.",
    )
    told_networks: Networks = Field(
        default=(),
        description="Networks that addresses may be in that programs or objects of a cluster tell, besides.",
    )

    @model_validator(mode="after")
    def _grants_are_for_somebody(self) -> Self:
        by_name = self.oidc is not None or self.has_proxy_door
        if self.grants and not by_name:
            raise ValueError(
                "grants are for people: they need oidc or proxy, with a user_header; "
                "a token has its own rights"
            )
        if by_name and not self.grants:
            raise ValueError("oidc and proxy need grants: without one nobody gets in")
        return self

    @property
    def has_proxy_door(self) -> bool:
        return self.proxy is not None and self.proxy.names_people

    @property
    def ways_in(self) -> str:
        """What could be set besides the server's own token, for who has set none of it."""
        blind = "; this one has no user_header and identifies nobody" if self.proxy is not None else ""
        return f", access.tokens_file, access.oidc, or access.proxy (see docs/security.md{blind})"

    @property
    def has_door(self) -> bool:
        """Whether anybody is asked who they are, besides for the server's own token."""
        return self.tokens_file is not None or self.oidc is not None or self.has_proxy_door
