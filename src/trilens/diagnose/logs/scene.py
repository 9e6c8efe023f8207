"""All that the logs have, with whom it is about and when it was: what causes are looked for in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trilens.diagnose.logs.clocks import Clocks
from trilens.diagnose.logs.people import People, Who
from trilens.diagnose.logs.signs import Kind, log_classes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.diagnose.logs.found import Found, Hit
    from trilens.diagnose.logs.signs import LogClass


class Scene:
    def __init__(self, found: Found) -> None:
        self.found = found
        self.people = People(found)
        self.clocks = Clocks(found)
        self.classes = log_classes()
        self.hits = [(hit, self.people.of_hit(hit)) for hit in found.hits.values()]

    def moment(self, hit: Hit) -> int | None:
        """By the clock of the host that said it, made comparable."""
        return self.clocks.moment(hit.t_ms, self.people.who(hit.speaker).host)

    def host_of(self, rank: int) -> str:
        return next((who.host for _, who in self.hits if who.rank == rank and who.host), "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that may be the cause."""

    of: LogClass
    who: Who
    sure: float
    kind: Kind
    t_ms: int | None = None
    source: int = 0
    number: int = 0  # of its line; 0 where no single line says it
    text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    @property
    def place(self) -> tuple[int, int]:
        return (self.source, self.number)


def of_hit(scene: Scene, hit: Hit, who: Who) -> Candidate:
    names = dict(hit.names)
    if "peer" in names:
        names["peer"] = scene.people.host_at(names["peer"])
    return Candidate(
        scene.classes[hit.sign.cause],
        who,
        hit.sign.sure,
        hit.sign.kind,
        scene.moment(hit),
        hit.speaker.source,
        hit.number,
        hit.text,
        names,
    )
