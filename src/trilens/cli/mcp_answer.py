"""An answer small enough for an assistant to read, with a note of all that was cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM: Final = 40_000  # characters, about 10,000 tokens: a few such answers fit into any conversation
_FEW: Final = 3  # of any list so many stay, so that one sees what it is made of
_LONG: Final = 500  # characters of a text that stay where lists alone do not make it fit


class _Piece(NamedTuple):
    """A list or a text inside an answer, and where."""

    depth: int  # lists around it
    path: str
    parent: Any
    key: Any

    @property
    def value(self) -> Any:
        return self.parent[self.key]


def answer_text(answer: dict[str, Any], room: int = ROOM) -> str:
    """As JSON. Outer lists are cut before those inside them, the largest first, and long texts at last;
    `cut` then says what there would have been, and stands first, so that nobody misses it."""
    cut: dict[str, str] = {}
    answer = json.loads(_json(answer))  # a copy, to be cut
    size = len(_json(answer))
    while size > room and (piece := _next_to_cut(answer)) is not None:
        _cut(piece, size - room, cut)
        size = len(_json(answer))
    if size > room:
        cut["all"] = "too large even so: ask about less"
        return _json({"cut": cut, "beginning": _json(answer)[:room]})
    return _json({"cut": cut, **answer} if cut else answer)


def _next_to_cut(answer: dict[str, Any]) -> _Piece | None:
    pieces = list(_pieces(answer, "", 0))
    lists = [one for one in pieces if isinstance(one.value, list) and len(one.value) > _FEW]
    if lists:
        return min(lists, key=lambda one: (one.depth, -len(_json(one.value))))
    texts = [one for one in pieces if isinstance(one.value, str) and len(one.value) > _LONG]
    return max(texts, key=lambda one: len(one.value), default=None)


def _pieces(value: Any, path: str, depth: int) -> Iterator[_Piece]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inside = depth + isinstance(value, list)
    for key, one in items:
        where = f"{path}[]" if isinstance(value, list) else f"{path}.{key}".lstrip(".")
        if isinstance(one, list | str):
            yield _Piece(inside, where, value, key)
        if isinstance(one, list | dict):
            yield from _pieces(one, where, inside)


def _cut(piece: _Piece, surplus: int, cut: dict[str, str]) -> None:
    value = piece.value
    whole = len(value)
    if isinstance(value, str):
        piece.parent[piece.key] = value[:_LONG] + "…"
        cut[piece.path] = f"texts longer than {_LONG} characters end in …"
        return
    kept = max(_FEW, int(whole * max(0.0, 1 - surplus / len(_json(value)))))
    kept = min(kept, whole - 1)  # each time it gets smaller, however small the surplus
    piece.parent[piece.key] = value[:kept]
    if piece.depth:
        cut[piece.path] = f"these lists have only their first items, {_FEW} or more"
    else:
        before = cut.get(piece.path, "").rpartition(" of ")[2]
        cut[piece.path] = f"the first {kept} of {before or whole}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
