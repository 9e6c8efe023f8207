"""Whose name a silence, a fix or an acknowledgement carries."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from trilens.model.grants import grant_of
from trilens.model.identity import EVERYTHING, LOCAL, Identity
from trilens.serve.access.authors import author
from trilens.serve.routes import IDENTITY


@pytest.mark.parametrize(
    ("identity", "claimed", "expected"),
    [
        (LOCAL, "ada", "ada"),
        (LOCAL, "", ""),
        (Identity("bob", "session", EVERYTHING), "ada", "bob"),
        (Identity("bob", "proxy", EVERYTHING), "ada", "bob"),
        (Identity("token:ci", "token abc", grant_of(["fix"])), "ada", "token:ci"),
        (Identity("server token", "token", EVERYTHING), "ada", "ada (server token)"),
        (Identity("server token", "token", EVERYTHING), "", "server token"),
    ],
)
def test_who_is_known_counts_and_not_what_is_claimed(identity: Identity, claimed: str, expected: str) -> None:
    request = Request({"type": "http", "headers": [], IDENTITY: identity})
    assert author(request, claimed) == expected
