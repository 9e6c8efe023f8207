"""Incidents that were settled in public threads, by the lines that the threads show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.verdicts.gloo import of_logs
from bench.verdicts.incident_files import incidents
from bench.verdicts.incident_files import unseen as unseen_incidents
from bench.verdicts.labelled import Case, Label, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.verdicts.incident_files import Incident

KNOWN: Final = "public, known"
AT_FIRST_SIGHT: Final = "at first sight"
TODAY: Final = "today"
_LOOKS: Final = {1: "first look", 2: "second look", 3: "third look"}


def unseen_group(look: int, when: str) -> str:
    return f"public, unseen, {_LOOKS[look]}: {when}"


def is_past(group: str) -> bool:
    """What was said at first sight stays as it was."""
    return group.endswith(f": {AT_FIRST_SIGHT}")


def known() -> Iterator[Case]:
    for one in incidents():
        yield Case(KNOWN, one.name, _label(one), [of_logs(one.verdict())])


def first_looks() -> Iterator[Case]:
    """What was said before anything was changed for them. Who was blamed then is not kept."""
    for one in _by_look():
        look = one.first_look
        causes = dict.fromkeys((look.wanted, *one.also_right), one.expected["settled"])
        label = _label(one)._replace(causes=causes, ranks=())
        group = unseen_group(one.look, AT_FIRST_SIGHT)
        yield Case(group, one.name, label, [Said(look.said, look.confidence, look.mark)])


def unseen() -> Iterator[Case]:
    for one in _by_look():
        yield Case(unseen_group(one.look, TODAY), one.name, _label(one), [of_logs(one.verdict())])


def _by_look() -> list[Incident]:
    return sorted(unseen_incidents(), key=lambda one: one.look)


def _label(one: Incident) -> Label:
    told = one.expected
    ranks = (told["rank"],) if "rank" in told else ()
    causes = dict.fromkeys((told["class"], *one.also_right), told["settled"])
    return Label(causes, ranks, may_not_know=bool(told.get("cannot_tell")))
