"""What an API answers when it cannot."""

from __future__ import annotations

import json

from trilens.model.errors import NotFound
from trilens.serve.envelope import failure


def test_a_hint_is_in_what_clients_of_prometheus_show_and_by_itself_for_others() -> None:
    told = json.loads(failure(NotFound("nobody is there", hint="ask later")).body)
    assert told["error"] == "nobody is there (ask later)"
    assert told["hint"] == "ask later"


def test_without_a_hint_there_is_none() -> None:
    assert "hint" not in json.loads(failure(NotFound("nobody is there")).body)
