"""Login cookies: who can make one, how long it counts, and how its key is kept."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography.fernet import Fernet
from starlette.datastructures import Headers
from starlette.responses import Response

from memory_api import Api
from trilens.model.errors import ConfigError
from trilens.serve.access.oidc.attempt import Attempts
from trilens.serve.access.people import People
from trilens.serve.access.session import Cookie, Sealed, SessionDoor, session_keys
from trilens.serve.questions import clock_ms
from trilens.settings.access import GrantSettings

if TYPE_CHECKING:
    from pathlib import Path

HOURS_8 = 8 * 3600


class Desk:
    """A door, and a browser that keeps what it is given."""

    def __init__(self, data_dir: Path, key_file: Path | None = None, *, is_secure: bool = False) -> None:
        self.now_ms = 1_000_000
        self.people = People([GrantSettings(groups=("ops",), rights=("read",))])
        self.keys = session_keys(key_file, data_dir)
        cookie = Cookie("trilens-session", is_secure=is_secure)
        self.door = SessionDoor(self.keys, cookie, self.people, HOURS_8, lambda: self.now_ms)

    def log_in(self, *groups: str) -> str:
        """The header that sets the cookie."""
        response = Response()
        self.door.begin(response, "ada", frozenset(groups))
        return response.headers["set-cookie"]

    def knows(self, set_cookie: str) -> bool:
        pair = set_cookie.partition(";")[0]
        return self.door.identify({}, Headers({"cookie": f"theme=dark; {pair}"})) is not None


def test_a_login_lasts_so_long_and_no_longer(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    cookie = desk.log_in("ops")
    assert desk.knows(cookie)
    desk.now_ms += HOURS_8 * 1000 - 1
    assert desk.knows(cookie)
    desk.now_ms += 1
    assert not desk.knows(cookie)


@pytest.mark.parametrize("is_settled", [True, False])
async def test_a_logout_is_on_disk_when_it_is_answered(tmp_path: Path, is_settled: bool) -> None:
    api = Api(
        overrides={
            "access.oidc": {"issuer": "https://login.example", "client_id": "trilens"},
            "access.grants": [{"groups": ["ops"], "rights": ["read"]}],
            "storage.data_dir": str(tmp_path),
        }
    )
    api.audit.is_settled = is_settled
    desk = Desk(tmp_path)
    desk.now_ms = clock_ms()
    inside = httpx.ASGITransport(api.build())
    headers = {"Cookie": desk.log_in("ops").partition(";")[0], "Origin": "http://localhost"}
    async with httpx.AsyncClient(transport=inside, base_url="http://localhost", headers=headers) as browser:
        answer = await browser.post("/auth/logout")
        assert answer.status_code == (200 if is_settled else 503)
        assert (await browser.get("/auth/me")).json()["data"]["name"] is None  # here in any case


def test_a_grant_that_is_taken_away_ends_it_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    cookie = desk.log_in("ops")
    desk.people.use([GrantSettings(groups=("dev",), rights=("read",))])
    assert not desk.knows(cookie)


def test_nobody_else_can_make_or_change_one(tmp_path: Path) -> None:
    desk, other = Desk(tmp_path), Desk(tmp_path / "other")
    cookie = desk.log_in("ops")
    assert not desk.knows(other.log_in("ops"))
    value = cookie.partition(";")[0].partition("=")[2]
    for wrong in (value[:-5] + "AAAA=", value[:40], "", "é" * 40, value.swapcase()):
        assert not desk.knows(f"trilens-session={wrong}")
    # What the browser keeps while it is at the provider is sealed with the same key.
    _, kept = Attempts(Sealed(desk.keys, "attempt"), lambda: desk.now_ms).begin("/")
    assert not desk.knows(f"trilens-session={kept}")


def test_with_https_it_is_for_this_host_alone(tmp_path: Path) -> None:
    secure, plain = Desk(tmp_path, is_secure=True).log_in("ops"), Desk(tmp_path).log_in("ops")
    assert secure.startswith("__Host-trilens-session=")
    assert plain.startswith("trilens-session=")
    for attribute in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=28800"):
        assert attribute in secure
        assert attribute in plain
    assert ("Secure" in secure, "Secure" in plain) == (True, False)
    assert "Domain" not in secure


def test_only_groups_that_matter_are_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    many = [f"group-{at}" for at in range(2_000)]
    assert len(desk.log_in("ops", *many)) < 1_000
    desk.people.use([GrantSettings(groups=tuple(many), rights=("read",))])
    with pytest.raises(ConfigError, match="more groups"):
        desk.log_in(*many)


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    cookie = Desk(tmp_path).log_in("ops")
    assert stat.S_IMODE((tmp_path / "session-key").stat().st_mode) == 0o600
    assert Desk(tmp_path).knows(cookie)  # after a restart


def test_a_key_is_changed_with_nobody_logged_out(tmp_path: Path) -> None:
    file, old, new = tmp_path / "key", Fernet.generate_key().decode(), Fernet.generate_key().decode()
    file.write_text(f"{old}\n")
    before = Desk(tmp_path, file).log_in("ops")
    file.write_text(f"{new}\n{old}\n")
    between = Desk(tmp_path, file)
    assert between.knows(before)
    after = between.log_in("ops")
    file.write_text(f"{new}\n")
    assert Desk(tmp_path, file).knows(after)
    assert not Desk(tmp_path, file).knows(before)


@pytest.mark.parametrize("text", ["", "too short", "x" * 44])
def test_what_is_no_key_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(ConfigError, match="holds no session key"):
        session_keys(file, tmp_path)


def test_who_logged_out_here_stays_so_whatever_is_heard_from_elsewhere(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    cookie = desk.log_in("ops")
    desk.now_ms += 1_000
    desk.door.end(Response(), "ada")
    desk.door.heard({})
    desk.door.heard({"ada": desk.now_ms - 2_000, "bob": desk.now_ms})
    assert not desk.knows(cookie)
    desk.now_ms += 1_000
    assert desk.knows(desk.log_in("ops"))


def test_who_logged_out_elsewhere_is_logged_out_here(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    cookie = desk.log_in("ops")
    desk.door.heard({"ada": desk.now_ms - 1})
    assert desk.knows(cookie)
    desk.door.heard({"ada": desk.now_ms})
    assert not desk.knows(cookie)


def test_a_login_in_a_terminal_is_that_of_the_browser(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    browser = Headers({"cookie": desk.log_in("ops").partition(";")[0]})
    carried = desk.door.for_terminal(browser)
    assert carried is not None
    terminal = Headers({"authorization": f"Bearer {carried}"})
    found = desk.door.identify({}, terminal)
    assert found is not None
    assert (found.name, found.how) == ("ada", "terminal")
    assert desk.door.ends_ms(terminal) == desk.door.ends_ms(browser) == 1_000_000 + HOURS_8 * 1000
    # Neither is taken for the other, and no further one is made in a terminal.
    assert not desk.knows(f"trilens-session={carried.removeprefix('trs_')}")
    cookie = browser["cookie"].partition("=")[2]
    assert desk.door.identify({}, Headers({"authorization": f"Bearer trs_{cookie}"})) is None
    assert desk.door.for_terminal(terminal) is None

    desk.people.use([GrantSettings(groups=("dev",), rights=("read",))])
    assert desk.door.identify({}, terminal) is None
    desk.people.use([GrantSettings(groups=("ops",), rights=("read",))])
    desk.now_ms += 1000
    desk.door.end(Response(), "ada")
    assert desk.door.identify({}, terminal) is None


def test_a_login_in_a_terminal_ends_with_that_of_the_browser(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    browser = Headers({"cookie": desk.log_in("ops").partition(";")[0]})
    desk.now_ms += HOURS_8 * 1000 - 1
    terminal = Headers({"authorization": f"Bearer {desk.door.for_terminal(browser)}"})
    assert desk.door.identify({}, terminal) is not None
    desk.now_ms += 1
    assert desk.door.identify({}, terminal) is None
    assert desk.door.for_terminal(browser) is None
