"""Which pages may have somebody who is logged in change things."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from trilens.model.identity import EVERYTHING, Identity
from trilens.serve.access.origins import Origins
from trilens.settings.server import ServerSettings

OUTSIDE = "https://trilens.example"
ORIGINS = Origins(ServerSettings(external_url=OUTSIDE, cors_origins=("https://grafana.example",)))


def is_refused(how: str, **headers: str) -> bool:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return ORIGINS.refusal(Identity("ada", how, EVERYTHING), named) is not None


@pytest.mark.parametrize("how", ["session", "proxy"])
def test_who_is_known_by_what_a_browser_sends_comes_from_a_page_of_ours(how: str) -> None:
    assert not is_refused(how, origin="https://10.0.0.1:9400", host="10.0.0.1:9400")
    assert is_refused(how, origin="http://10.0.0.1:9400", host="10.0.0.1:9400")  # it can be read on the way
    assert not is_refused(how, origin=OUTSIDE, host="inside:9400")
    assert not is_refused(how, sec_fetch_site="same-origin", host="inside:9400")
    for foreign in ("https://evil.example", "null", "https://grafana.example", f"{OUTSIDE}.evil.example"):
        assert is_refused(how, origin=foreign, host="trilens.example"), foreign
    assert is_refused(how, host="trilens.example")  # nothing says which page it was
    assert is_refused(how, sec_fetch_site="same-site", host="trilens.example")
    assert is_refused(how, sec_fetch_site="none", host="trilens.example")


def test_over_http_a_page_of_http_is_ours() -> None:
    ada = Identity("ada", "proxy", EVERYTHING)
    for scheme in ("http", "https"):  # the proxy before it may speak https
        told = Headers({"origin": f"{scheme}://inside:9400", "host": "inside:9400"})
        assert Origins(ServerSettings()).refusal(ada, told) is None


def test_a_page_of_no_origin_is_not_ours_where_no_host_is_named() -> None:
    assert is_refused("session", origin="null")
    assert is_refused("token", origin="null")


def test_a_token_is_sent_by_programs_too_but_by_no_foreign_page() -> None:
    assert not is_refused("token", host="trilens.example")
    assert not is_refused("token", origin="https://grafana.example", host="trilens.example")
    assert is_refused("token", origin="https://evil.example", host="trilens.example")
    assert is_refused("token", sec_fetch_site="cross-site", host="trilens.example")
