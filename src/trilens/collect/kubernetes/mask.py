"""Which parts of an object are kept, written as one would ask for them:

    spec { nodeName containers * { name resources } }

A name without braces keeps all that is under it; `*` stands for every item of a list, or every value by
any name; `...conditions` for what FRAGMENTS says under that name.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import msgspec

Mask: TypeAlias = dict[str, "Mask"]
"""By name; an empty one keeps everything below."""

FRAGMENTS: Final = {
    "conditions": "conditions * { type status reason message lastTransitionTime }",
    "container": "name image resources restartPolicy",
    "ended": "exitCode signal reason message startedAt finishedAt",
    "step": """id name displayName type templateName templateRef phase startedAt finishedAt message boundaryID
        children hostNodeName progress""",
    "template": """template { metadata { labels annotations } spec {
        containers * { ...container } initContainers * { ...container }
        nodeSelector tolerations schedulerName priorityClassName restartPolicy resourceClaims
    } }""",
}

_TOKEN: Final = re.compile(r"(?:\.\.\.)?[A-Za-z0-9]+|[{}*]")
_FRAGMENT: Final = "..."
_EVERY: Final = "*"
_POOLED: Final = 50_000  # texts and parts that are remembered to be shared
_LONGEST: Final = 512  # nobody says more than this twice


def read_mask(text: str) -> Mask:
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    mask = _read_block(tokens)
    assert not tokens, f"a brace too many in {text!r}"
    return mask


def _read_block(tokens: list[str]) -> Mask:
    mask: Mask = {}
    while tokens and tokens[-1] != "}":
        name = tokens.pop()
        if name.startswith(_FRAGMENT):
            mask.update(read_mask(FRAGMENTS[name.removeprefix(_FRAGMENT)]))
            continue
        here = mask.setdefault(name, {})
        if tokens and tokens[-1] == _EVERY:
            tokens.pop()
            here = here.setdefault(_EVERY, {})
        if tokens and tokens[-1] == "{":
            tokens.pop()
            here.update(_read_block(tokens))
            tokens.pop()
    return mask


class Trimmer:
    """Cuts objects down, and lets those that say the same share it: the pods of one job differ in little."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._parts: dict[bytes, Any] = {}

    def trim(self, value: Any, mask: Mask) -> Any:
        """What has not the shape that the mask expects is kept as it is: a new version may have it so."""
        if not mask:
            return self._share(value)
        if isinstance(value, dict):
            every = mask.get(_EVERY)
            kept = {}
            for name, part in value.items():
                below = mask.get(name, every)
                if below is not None:
                    kept[name] = self.trim(part, below)
            return kept
        if isinstance(value, list):
            below = mask.get(_EVERY, mask)
            return [self.trim(item, below) for item in value]
        return self._share(value)

    def text(self, text: str) -> str:
        if len(text) > _LONGEST:
            return text
        if len(self._texts) >= _POOLED:  # who has them goes on sharing; only newcomers start afresh
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def texts(self, texts: dict[str, str]) -> dict[str, str]:
        return {self.text(name): self.text(value) for name, value in texts.items()}

    def _share(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        spelled = msgspec.json.encode(value)
        if len(spelled) > _LONGEST:
            return value
        if len(self._parts) >= _POOLED:
            self._parts.clear()
        return self._parts.setdefault(spelled, value)
