"""The ledger in the terms of OpenCost's allocations: who held what of a span, in parts, and what stood idle.

OpenCost divides machines by pods; the ledger books GPU time of workloads. So an allocation is a holder's GPU
time, and its cost that of everything the node cost, divided as docs/ledger.md says. What a row cost is split
into GPU, CPU, memory, storage and network as the bills of its node over the whole span are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.sharing import divided_by
from trilens.model.errors import RequestError
from trilens.model.ledger import Bucket
from trilens.model.ledger_sums import Dimension
from trilens.model.workload import WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Sum, Window
    from trilens.model.query import QueryGuard

IDLE: Final = "__idle__"
UNALLOCATED: Final = "__unallocated__"

_FLEET: Final = frozenset(bucket.value for bucket in Bucket if bucket.is_fleet)
_GPU: Final = "gpu"
_PARTS: Final = {"power": _GPU}  # OpenCost has no word for it
_WHERE: Final = (Dimension.CLUSTER, Dimension.NODE, Dimension.BUCKET)


class Shown(StrEnum):
    """What of a dimension's value is shown."""

    VALUE = "value"
    CONTROLLER = "controller"  # kind:name of a workload
    KIND = "controllerKind"
    NAME = "name"  # of a workload of one kind


class Property(NamedTuple):
    """One of those that allocations are added up by."""

    name: str  # as it was asked for, and as the properties name it
    dimension: Dimension
    shown: Shown = Shown.VALUE
    kind: str = ""  # of Shown.NAME

    def of(self, key: str | int | WorkloadKey | None) -> str:
        if isinstance(key, WorkloadKey):
            if self.shown is Shown.CONTROLLER:
                return f"{key.kind.lower()}:{key.name}"
            if self.shown is Shown.KIND:
                return key.kind.lower()
            return key.name if key.kind.lower() == self.kind else UNALLOCATED
        return UNALLOCATED if key is None or key == "" else str(key)


class IdleRule(NamedTuple):
    include: bool = False
    by_node: bool = False
    share: bool = False  # what a cluster's free GPUs cost is paid by who held others, as theirs cost


@dataclass(slots=True)
class Allocation:
    """`quanta` by part; `shared` is what of them is a share of what stood idle."""

    name: str
    properties: Mapping[str, str]
    gpu_ms: int = 0
    useful_ms: int = 0
    signal_ms: int = 0
    unpriced_ms: int = 0
    quanta: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    shared: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def total(self) -> int:
        return sum(self.quanta.values())

    @property
    def is_priced(self) -> bool:
        return self.unpriced_ms < self.gpu_ms or self.total > 0

    def add(self, row: Sum, parts: Mapping[str, int]) -> None:
        self.gpu_ms += row.gpu_ms
        self.useful_ms += row.useful_ms
        self.signal_ms += row.signal_ms
        self.unpriced_ms += row.unpriced_ms
        for part, quanta in parts.items():
            self.quanta[part] += quanta


def allocations(
    book: LedgerBook,
    window: Window,
    by: Sequence[Property],
    idle: IdleRule,
    guard: QueryGuard | None = None,
) -> list[Allocation]:
    """By name. Raises RequestError where amounts of several currencies meet."""
    dimensions = [*dict.fromkeys((*(one.dimension for one in by), *_WHERE))]
    rows = book.sums(dimensions, window, guard=guard)
    _check_currency(rows)
    bills = book.bill_parts(window.from_ms, window.to_ms, guard=guard)
    found: dict[str, Allocation] = {}
    of_cluster: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    stood: defaultdict[str, list[tuple[Sum, Mapping[str, int], str]]] = defaultdict(list)
    for row in rows:
        keys = dict(zip(dimensions, row.keys, strict=True))
        cluster, node = str(keys[Dimension.CLUSTER]), str(keys[Dimension.NODE])
        parts = _split(row.quanta, bills.get((cluster, node), {}))
        if keys[Dimension.BUCKET] in _FLEET:
            stood[cluster].append((row, parts, node))
            continue
        shown = {one.name: one.of(keys[one.dimension]) for one in by}
        name = "/".join(shown.values())
        _of(found, name, shown).add(row, parts)
        of_cluster[cluster][name] += row.quanta
    for cluster, spans in stood.items():
        if idle.share and _share(spans, of_cluster[cluster], found):
            continue
        if idle.include or idle.share:
            for row, parts, node in spans:
                name = f"{node}/{IDLE}" if idle.by_node else IDLE
                _of(found, name, {"cluster": cluster}).add(row, parts)
    return [found[name] for name in sorted(found)]


def _of(found: dict[str, Allocation], name: str, properties: Mapping[str, str]) -> Allocation:
    """What several have in common is a property, the rest is not."""
    known = found.setdefault(name, Allocation(name, properties))
    known.properties = {key: text for key, text in known.properties.items() if properties.get(key) == text}
    return known


def _split(quanta: int, bill: Mapping[str, int]) -> Mapping[str, int]:
    """As the bill is; all of it is the GPU's where there is none."""
    if not quanta or sum(bill.values()) <= 0:
        return {_GPU: quanta}
    parts: defaultdict[str, int] = defaultdict(int)
    for part, amount in zip(bill, divided_by(quanta, [*bill.values()]), strict=True):
        parts[_PARTS.get(part, part)] += amount
    return parts


def _share(
    spans: Iterable[tuple[Sum, Mapping[str, int], str]],
    weights: Mapping[str, int],
    found: Mapping[str, Allocation],
) -> bool:
    """False where nobody held anything that cost something: then it stays what it is."""
    if sum(weights.values()) <= 0:
        return False
    idle: defaultdict[str, int] = defaultdict(int)
    for _, parts, _ in spans:
        for part, quanta in parts.items():
            idle[part] += quanta
    names = sorted(weights)
    for part, quanta in idle.items():
        shares = divided_by(quanta, [weights[name] for name in names])
        for name, share in zip(names, shares, strict=True):
            found[name].quanta[part] += share
            found[name].shared[part] += share
    return True


def _check_currency(rows: Iterable[Sum]) -> None:
    currencies = sorted({row.currency for row in rows if row.currency})
    if len(currencies) > 1:
        raise RequestError(
            f"amounts in {' and '.join(currencies)} cannot be added up", hint="ask for a shorter window"
        )
