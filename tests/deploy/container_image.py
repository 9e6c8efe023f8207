"""The image recipe, as stages with their instructions: no container runtime can be had here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

CONTAINERFILE = Path(__file__).parents[2] / "deploy" / "image" / "Containerfile"


class Instruction(NamedTuple):
    word: str
    rest: str


class Stage(NamedTuple):
    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all_of(self, word: str) -> list[str]:
        return [one.rest for one in self.instructions if one.word == word]


class ImageSettings(NamedTuple):
    """What a container of an image begins with."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    environ: dict[str, str]


def stages(text: str | None = None) -> dict[str, Stage]:
    text = CONTAINERFILE.read_text(encoding="utf-8") if text is None else text
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    found: dict[str, Stage] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(name, base, ())
        elif found:
            name, stage = list(found.items())[-1]
            found[name] = stage._replace(instructions=(*stage.instructions, Instruction(word, rest)))
    return found


def image(target: str) -> ImageSettings:
    """Of the stage and of all that it is based on, the last word counts."""
    known = stages()
    chain = [known[target]]
    while chain[0].base in known:
        chain.insert(0, known[chain[0].base])
    said = [one for stage in chain for one in stage.instructions]
    last = {one.word: one.rest for one in said}
    environ = dict(one.rest.split("=", 1) for one in said if one.word == "ENV")
    return ImageSettings(
        tuple(json.loads(last["ENTRYPOINT"])), tuple(json.loads(last["CMD"])), last["USER"], environ
    )
