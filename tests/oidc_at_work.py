"""A real provider of OpenID Connect beside a real server, and somebody who fills in its forms."""

from __future__ import annotations

import html
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import servers
from memory_api import Api, running
from node_js import HERE, node, node_modules
from servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

SECRET = "of the client"
GRANTS = [
    {"groups": ["ops"], "rights": ["admin"]},
    {"groups": ["nlp"], "rights": ["read"], "teams": ["nlp"]},
    {"users": ["ada@example.test"], "rights": ["fix"]},
]


@dataclass(frozen=True, slots=True)
class Site:
    """A server that people log in to."""

    url: str
    issuer: str
    api: Api


def provider_module() -> Path:
    return node_modules("oidc-provider") / "oidc-provider" / "lib" / "index.js"


@contextmanager
def site_with_provider(folder: Path, *, claims_in: str = "userinfo") -> Iterator[Site]:
    provider_port, port = free_port(), free_port()
    issuer, url = f"http://127.0.0.1:{provider_port}", f"http://127.0.0.1:{port}"
    script = HERE / "tests" / "serve" / "access" / "provider.mjs"
    arguments = [str(provider_module()), str(provider_port), SECRET, claims_in, f"{url}/auth/callback"]
    oidc = {
        "issuer": issuer,
        "client_id": "trilens",
        "client_secret": SECRET,
        "scopes": "openid,email,groups",
    }
    overrides = {
        "server.external_url": url,
        "storage.data_dir": folder / "data",
        "access.oidc": oidc,
        "access.grants": GRANTS,
        "access.failures_per_s": 100,
    }
    with servers.running(
        [node(), str(script), *arguments],
        f"{issuer}/.well-known/openid-configuration",
        log=folder / f"provider-{provider_port}.log",
    ):
        api = Api(overrides=overrides)
        with running(api.build(), port):
            yield Site(url, issuer, api)


def log_in(client: httpx.Client, site: Site, account: str, to: str = "/") -> httpx.Response:
    """Follows all that a browser would follow; the answer of the last address."""
    answer = client.get(f"{site.url}/auth/login", params={"next": to})
    for _ in range(12):
        if answer.has_redirect_location:
            answer = client.get(urljoin(str(answer.url), answer.headers["location"]))
        elif str(answer.url).startswith(site.issuer) and "<form" in answer.text:
            answer = _fill_in(client, answer, account)
        else:
            return answer
    raise AssertionError(f"it goes round in circles: {answer.url}")


def callback_of(client: httpx.Client, site: Site, account: str) -> str:
    """Where the provider sends the browser back to; nobody has gone there yet."""
    answer = client.get(f"{site.url}/auth/login")
    for _ in range(12):
        if answer.has_redirect_location:
            next_url = urljoin(str(answer.url), answer.headers["location"])
            if next_url.startswith(f"{site.url}/auth/callback"):
                return next_url
            answer = client.get(next_url)
        else:
            answer = _fill_in(client, answer, account)
    raise AssertionError(f"it goes round in circles: {answer.url}")


def _fill_in(client: httpx.Client, page: httpx.Response, account: str) -> httpx.Response:
    action = re.search(r'<form[^>]*action="([^"]+)"', page.text)
    assert action is not None, page.text
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    form = {**dict(hidden), "login": account, "password": "any"}
    return client.post(urljoin(str(page.url), html.unescape(action[1])), data=form)
