"""`trilens fix`: what it refuses before a server is asked, and what it says where nothing is proposed."""

from __future__ import annotations

import json

from command_here import trilens_here
from http_target import HttpTarget

NOBODY = "http://127.0.0.1:9"


def test_an_annotation_is_wanted_before_anybody_is_asked() -> None:
    refused = trilens_here("fix", "ml/train", "--deed", "annotate", "--server", NOBODY)
    assert (refused.returncode, "--set NAME=VALUE" in refused.stderr) == (2, True)


def test_where_a_machine_can_do_nothing_people_are_told_where_to_look() -> None:
    with HttpTarget() as server:
        server.say(json.dumps({"status": "success", "data": []}), "/api/fixes/proposals")
        shown = trilens_here("fix", "ml/train", "--server", f"http://{server.address}")
    assert shown.returncode == 0, shown.stderr
    assert "trilens why ml/train" in shown.stdout + shown.stderr
