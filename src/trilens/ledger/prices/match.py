"""Which prices fit a machine, and which of them is the most specific. docs/prices.md states the order."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.price import Purchase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.machine import Machine
    from trilens.model.price import Match, Price

KINDS: Final = ("node", "instance_type", "gpu_model", "cluster", "region", "provider")

_EXACT: Final = 1_000_000  # more than any pattern has letters
_WORD: Final = re.compile(r"[a-z0-9.*?]+")
# How a machine that does not tell is thought to be paid, the likeliest last. A price without a word about it
# fits any, so it comes before those that are rarer than on demand.
_UNTOLD: Final = {
    Purchase.SPOT: 1,
    Purchase.RESERVED: 2,
    Purchase.OWNED: 3,
    None: 4,
    Purchase.ON_DEMAND: 5,
}
_TOLD: Final = 6


class Rank(NamedTuple):
    """Compared from the left, the greater is the more specific; 0 is "says nothing about it"."""

    is_own: bool  # the user's file comes before what Trilens ships
    node: int
    instance_type: int
    gpu_model: int  # so many words
    cluster: int
    region: int
    provider: int
    purchase: int


class Fit(NamedTuple):
    price: Price
    rank: Rank
    is_assumed: bool  # how the machine is paid nobody told


class Miss(NamedTuple):
    """The first thing in which a machine is not what a price asks for."""

    price: Price
    kind: str
    wanted: str
    has: str  # "" where nobody told


def fit(price: Price, machine: Machine) -> Fit | Miss:
    ranks: dict[str, int] = {}
    for kind in KINDS:
        patterns: tuple[str, ...] = getattr(price.match, kind)
        has: str = getattr(machine, kind)
        ranks[kind] = max((rank_of(kind, one) for one in patterns if fits(kind, one, has)), default=0)
        if patterns and not ranks[kind]:
            return Miss(price, kind, " or ".join(patterns), has)
    wanted = price.match.purchase
    if machine.purchase:
        if wanted is not None and wanted != machine.purchase.casefold():
            return Miss(price, "purchase", wanted, machine.purchase)
        purchase = _TOLD if wanted is not None else _UNTOLD[None]
    elif _may_be(price.match, machine):
        purchase = _UNTOLD[wanted]
    else:
        return Miss(price, "purchase", wanted or "", "")
    assumed = not machine.purchase and wanted is not None and not _names_machines(price.match)
    return Fit(price, Rank(not price.is_default, **ranks, purchase=purchase), assumed)


def _may_be(match: Match, machine: Machine) -> bool:
    """Whether a machine that does not tell may be paid so. A price of named machines tells it of them."""
    if match.purchase in (None, Purchase.ON_DEMAND) or _names_machines(match):
        return True
    return match.purchase is Purchase.OWNED and not machine.provider  # a cloud's machine is nobody's own


def _names_machines(match: Match) -> bool:
    return bool(match.node or match.cluster)


def fits(kind: str, pattern: str, has: str) -> bool:
    if not has:
        return False
    if kind == "gpu_model":
        words = model_words(has)
        return all(any(_glob(part).fullmatch(word) for word in words) for part in model_words(pattern))
    return _glob(pattern.casefold()).fullmatch(has.casefold()) is not None


def rank_of(kind: str, pattern: str) -> int:
    if kind == "gpu_model":
        return len(model_words(pattern))
    return 1 + sum(letter not in "*?" for letter in pattern) if _is_glob(pattern) else _EXACT


@lru_cache(maxsize=4096)
def model_words(name: str) -> frozenset[str]:
    """`NVIDIA-H100-80GB-HBM3` (a node's label) has the words of `NVIDIA H100 80GB HBM3` (the driver)."""
    return frozenset(_WORD.findall(name.casefold()))


def _is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."))


def compete(one: Match, other: Match) -> bool:
    """Whether some machine fits both equally well, so that only their times can tell them apart.

    Different words for a GPU's model do not compete: no GPU is both "A100 40GB" and "A100 80GB".
    """
    return one.purchase is other.purchase and any(
        all(_alike(kind, a, b) for kind, a, b in zip(KINDS, mine, theirs, strict=True))
        for mine in _choices(one)
        for theirs in _choices(other)
    )


def _choices(match: Match) -> Iterator[tuple[str, ...]]:
    return product(*(getattr(match, kind) or ("",) for kind in KINDS))


def _alike(kind: str, one: str, other: str) -> bool:
    if not one or not other:
        return one == other
    if kind == "gpu_model":
        return model_words(one) == model_words(other)
    return rank_of(kind, one) == rank_of(kind, other) and _overlap(one.casefold(), other.casefold())


def _overlap(one: str, other: str) -> bool:
    """Whether a text fits both patterns."""
    if not _is_glob(one) and not _is_glob(other):
        return one == other

    @cache
    def meet(i: int, k: int) -> bool:
        a, b = one[i : i + 1], other[k : k + 1]
        if a == "*":
            return meet(i + 1, k) or (bool(b) and meet(i, k + 1))
        if b == "*":
            return meet(i, k + 1) or (bool(a) and meet(i + 1, k))
        if not a or not b:
            return a == b
        return (a == b or "?" in (a, b)) and meet(i + 1, k + 1)

    return meet(0, 0)
