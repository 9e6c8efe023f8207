"""Logins that come to nothing: too late, too often, with text that is not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography.fernet import Fernet, MultiFernet

from memory_api import Api
from trilens.model.errors import LoginRefused
from trilens.serve.access.oidc.attempt import LASTS_S, Attempts
from trilens.serve.access.session import Sealed, session_keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Its provider is never asked: what comes back is refused before."""
    api = Api(
        overrides={
            "access.oidc": {"issuer": "https://login.example", "client_id": "trilens"},
            "access.grants": [{"users": ["*"], "rights": ["read"]}],
            "storage.data_dir": str(tmp_path),
        }
    )
    inside = httpx.ASGITransport(api.build(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
        yield client


def test_a_login_that_takes_too_long_is_refused() -> None:
    now = [1_000_000]
    attempts = Attempts(Sealed(MultiFernet([Fernet(Fernet.generate_key())]), "attempt"), lambda: now[0])
    late, kept_late = attempts.begin("/")
    now[0] += 1000 * LASTS_S - 1
    soon, kept_soon = attempts.begin("/")
    now[0] += 1
    assert attempts.take(kept_soon, soon.state) == soon
    with pytest.raises(LoginRefused, match="took too long"):
        attempts.take(kept_late, late.state)


async def test_who_began_no_login_locks_nobody_out(browser: httpx.AsyncClient) -> None:
    """Of the same address: a page with many links to here, or somebody behind the same proxy."""
    for kept in (None, "forged"):
        if kept is not None:
            browser.cookies.set("trilens-login", kept)
        answers = [await browser.get("/auth/callback?state=x") for _ in range(12)]
        assert {one.status_code for one in answers} == {403}


async def test_who_fails_to_log_in_again_and_again_has_to_wait(
    browser: httpx.AsyncClient, tmp_path: Path
) -> None:
    sealed = Sealed(session_keys(None, tmp_path), "attempt")
    browser.cookies.set("trilens-login", Attempts(sealed).begin("/")[1])
    answers = [await browser.get("/auth/callback?state=x") for _ in range(12)]
    assert [one.status_code for one in answers] == [403] * 10 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_what_a_provider_says_is_shown_as_text(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise LoginRefused("<script>alert(1)</script>")

    monkeypatch.setattr(Attempts, "take", refused)
    page = await browser.get("/auth/callback?state=x")
    assert "&lt;script&gt;" in page.text
    assert "<script" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
