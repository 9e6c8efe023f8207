"""People log in with a real provider, form by form, as a browser would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api, running
from oidc_at_work import Site, callback_of, log_in, site_with_provider
from trilens.model.audit import AuditKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERY = "/api/v1/query?query=1"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_with_provider(tmp_path_factory.mktemp("oidc")) as found:
        yield found


@pytest.fixture
def browser() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


def test_somebody_logs_in_and_out(site: Site, browser: httpx.Client) -> None:
    assert browser.get(site.url + QUERY).status_code == 401
    answer = log_in(browser, site, "ada+ops", to="/money?tab=teams")
    assert str(answer.url) == f"{site.url}/money?tab=teams"
    me = browser.get(f"{site.url}/auth/me").json()["data"]
    assert (me["name"], me["how"]) == ("ada@example.test", "session")
    assert [grant["rights"] for grant in me["grants"]] == [["admin"], ["fix"]]
    assert browser.get(site.url + QUERY).status_code == 200

    cookies = list(browser.cookies.jar)
    session = next(one for one in cookies if one.name == "trilens-session" and one.domain == "127.0.0.1")
    assert session.has_nonstandard_attr("HttpOnly")
    assert session.get_nonstandard_attr("SameSite") == "lax"
    assert "ada" not in (session.value or "")

    assert browser.post(f"{site.url}/auth/logout", headers={"Origin": site.url}).status_code == 200
    assert browser.get(site.url + QUERY).status_code == 401
    # A copy of the cookie that somebody kept is worth nothing either.
    kept = {"Cookie": f"trilens-session={session.value}"}
    assert httpx.get(site.url + QUERY, headers=kept).status_code == 401
    told = [(one.kind, one.who) for one in site.api.audit.entries.values()]
    assert (AuditKind.LOGIN, "ada@example.test") in told
    assert (AuditKind.LOGOUT, "ada@example.test") in told


def test_a_login_is_taken_to_a_terminal(site: Site, browser: httpx.Client) -> None:
    ours = {"Origin": site.url}
    assert browser.post(f"{site.url}/auth/terminal", headers=ours).status_code == 403
    log_in(browser, site, "bob+nlp")
    assert browser.post(f"{site.url}/auth/terminal").status_code == 403  # another page could have asked
    made = browser.post(f"{site.url}/auth/terminal", headers=ours).json()["data"]
    carried = {"Authorization": f"Bearer {made['token']}"}
    me = httpx.get(f"{site.url}/auth/me", headers=carried).json()["data"]
    assert (me["name"], me["how"], me["ends_ms"]) == ("bob@example.test", "terminal", made["ends_ms"])
    assert me["grants"] == browser.get(f"{site.url}/auth/me").json()["data"]["grants"]
    assert httpx.get(site.url + QUERY, headers=carried).status_code == 200
    assert httpx.get(f"{site.url}/api/v1/targets", headers=carried).status_code == 403
    assert httpx.post(f"{site.url}/auth/terminal", headers=carried).status_code == 403
    told = [one for one in site.api.audit.entries.values() if one.detail == "for a terminal"]
    assert [(one.kind, one.who) for one in told] == [(AuditKind.LOGIN, "bob@example.test")]

    assert httpx.post(f"{site.url}/auth/logout", headers=carried).status_code == 200
    assert httpx.get(site.url + QUERY, headers=carried).status_code == 401
    assert browser.get(site.url + QUERY).status_code == 401


def test_what_is_granted_to_a_group_is_bound_to_its_team(site: Site, browser: httpx.Client) -> None:
    log_in(browser, site, "bob+nlp")
    assert browser.get(f"{site.url}/api/v1/targets").status_code == 403
    assert "team nlp only" in browser.get(f"{site.url}/api/v1/targets").json()["error"]


def test_nobody_gets_in_without_a_grant(site: Site, browser: httpx.Client) -> None:
    answer = log_in(browser, site, "eve+unknown")
    assert answer.status_code == 403
    assert "eve@example.test is known, but may do nothing here" in answer.text
    assert browser.get(site.url + QUERY).status_code == 401


def test_an_address_that_the_provider_has_not_verified_is_nobody(site: Site, browser: httpx.Client) -> None:
    assert "not verified" in log_in(browser, site, "mallory+ops").text


def test_a_session_changes_things_on_our_own_pages_only(site: Site, browser: httpx.Client) -> None:
    log_in(browser, site, "ada+ops")
    refused = (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
    )
    for headers in refused:
        assert browser.post(f"{site.url}/-/reload", headers=headers).status_code == 403, headers
    for headers in ({"Origin": site.url}, {"Sec-Fetch-Site": "same-origin"}):
        assert browser.post(f"{site.url}/-/reload", headers=headers).status_code == 200, headers


def test_an_answer_of_the_provider_is_taken_once_and_by_whom_it_is_for(
    site: Site, browser: httpx.Client
) -> None:
    url = callback_of(browser, site, "ada+ops")
    kept = browser.cookies["trilens-login"]
    stranger = httpx.get(url)  # a browser that did not begin it
    assert stranger.status_code == 403
    assert "has begun no login here" in stranger.text
    other = browser.get(url.replace("state=", "state=x"))
    assert "of another login" in other.text
    assert browser.get(url).status_code == 303
    again = httpx.get(url, headers={"Cookie": f"trilens-login={kept}"})
    assert again.status_code == 403
    assert "used already" in again.text


def test_another_provider_cannot_answer(site: Site, browser: httpx.Client) -> None:
    url = callback_of(browser, site, "ada+ops").replace("iss=", "iss=https://evil.example/")
    assert "of another provider" in browser.get(url).text


@pytest.mark.parametrize(
    "to",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:1", ""],
)
def test_a_login_leads_to_no_other_site(site: Site, browser: httpx.Client, to: str) -> None:
    answer = log_in(browser, site, "ada+ops", to=to)
    assert str(answer.url) == f"{site.url}/"


def test_claims_may_be_in_the_id_token(
    tmp_path_factory: pytest.TempPathFactory, browser: httpx.Client
) -> None:
    with site_with_provider(tmp_path_factory.mktemp("oidc"), claims_in="id_token") as site:
        log_in(browser, site, "ada+ops")
        assert browser.get(f"{site.url}/auth/me").json()["data"]["name"] == "ada@example.test"


def test_a_provider_that_is_away_is_said(tmp_path: Path) -> None:
    oidc = {"issuer": "http://127.0.0.1:9", "client_id": "trilens"}
    grants = [{"users": ["*"], "rights": ["read"]}]
    overrides = {"access.oidc": oidc, "access.grants": grants, "storage.data_dir": tmp_path}
    with running(Api(overrides=overrides).build()) as url:
        answer = httpx.get(f"{url}/auth/login")
    assert answer.status_code == 502
    assert "no answer from 127.0.0.1:9" in answer.text
