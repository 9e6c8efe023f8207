"""What the reader of logs makes of incidents that were settled in public threads."""

from __future__ import annotations

from collections import Counter

import pytest
from bench.verdicts.incident_files import Incident, incidents, unseen

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource
from trilens.diagnose.logs.signs import log_classes
from trilens.model.verdict import SURE_FROM, TELL_FROM

KNOWN = incidents()
UNSEEN = unseen()
ALL = [*KNOWN, *UNSEEN]
NAMES = [one.name for one in ALL]


@pytest.mark.parametrize("incident", ALL, ids=NAMES)
def test_it_comes_out_as_it_was_settled(incident: Incident) -> None:
    expected = incident.expected
    verdict = incident.verdict()
    if "taken_for" in expected:
        assert verdict.cause == expected["taken_for"], verdict
        assert TELL_FROM <= verdict.confidence < SURE_FROM, verdict
        return
    if expected.get("cannot_tell") or expected.get("not_told"):
        assert verdict.confidence < TELL_FROM, verdict
        return
    if verdict.cause not in incident.also_right:
        assert (verdict.cause, verdict.layer) == (expected["class"], expected["layer"]), verdict
    assert verdict.can_tell
    for name, told in (("rank", verdict.who.rank), ("host", verdict.who.host)):
        if name in expected:
            assert told == expected[name], verdict
    assert expected.get("fix_has", "") in " ".join(verdict.fix)


def _damaged(lines: list[str]) -> list[list[str]]:
    """The same log cut at every line, from the front and from the back, and every second line of it."""
    cuts = [cut for at in range(len(lines)) for cut in (lines[:at], lines[at:])]
    halves = [lines[::2], lines[1::2], [line[: len(line) * 2 // 3] for line in lines]]
    return [*cuts, *halves]


@pytest.mark.parametrize("incident", ALL, ids=NAMES)
def test_what_is_left_of_a_damaged_log_is_never_told_as_something_else_for_sure(incident: Incident) -> None:
    name = incident.logs[0].name
    whole = [LogSource(one.name, one.read_text().splitlines()) for one in incident.logs[1:]]
    for lines in _damaged(incident.logs[0].read_text().splitlines()):
        verdict = judge_logs([LogSource(name, lines), *whole])
        right = (incident.expected["class"], *incident.also_right)
        assert verdict.cause in right or verdict.confidence < SURE_FROM, verdict


def test_there_are_enough_of_them_and_each_is_cited() -> None:
    assert len([one for one in KNOWN if not one.expected.get("cannot_tell")]) >= 20
    assert min(Counter(one.look for one in UNSEEN).values()) >= 20
    assert len({one.expected["incident"] for one in ALL}) == len(ALL)
    for one in ALL:
        assert one.expected["incident"].startswith("https://github.com/")
        assert one.expected["settled"]
        assert one.expected["class"] in log_classes()


@pytest.mark.parametrize("incident", UNSEEN, ids=[one.name for one in UNSEEN])
def test_what_was_said_at_first_sight_is_scored_as_what_is_said_today(incident: Incident) -> None:
    look = incident.first_look
    assert look.mark is incident.mark(look.wanted, look.said, look.confidence)
