"""Who spends how much an hour now, and on what: of the rates that the ledger books."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.sharing import FLEET_KEY
from trilens.model.ledger import Basis, Bucket
from trilens.model.ledger_sums import Dimension
from trilens.model.workload import WorkloadKey
from trilens.serve.event_answers import WorkloadName
from trilens.serve.money.cost_view import amount_text
from trilens.serve.pages.now_answers import GpuState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.ledger.answers.burn import Burn
    from trilens.model.ledger_sums import Sum

BY: Final = (Dimension.WORKLOAD, Dimension.TEAM, Dimension.BUCKET, Dimension.BASIS)
STATES: Final = ("busy", "wasted", "idle", "broken", "unknown")
_BUSY: Final = frozenset({Bucket.PRODUCTIVE, Bucket.SERVING_BUSY, Bucket.CHECKPOINT})


class Spender(NamedTuple):
    """`workload` is None for all of a team, `team` where nobody knows it; both are of the fleet where nobody
    held what was spent."""

    team: str | None
    workload: WorkloadKey | None
    is_fleet: bool = False

    @property
    def workload_name(self) -> WorkloadName | None:
        return WorkloadName(*self.workload) if self.workload is not None else None


@dataclass(slots=True)
class Spent:
    """In quanta of one currency, in all or an hour. `is_priced` is whether anything in it has a price."""

    quanta: int = 0
    lost: int = 0
    gpus: float = 0.0
    unpriced_ms: int = 0
    is_priced: bool = False

    @property
    def amount(self) -> str | None:
        """Of nothing, zero is known."""
        return amount_text(self.quanta) if self.is_priced or not (self.gpus or self.unpriced_ms) else None

    @property
    def lost_amount(self) -> str | None:
        return amount_text(self.lost) if self.is_priced else None


@dataclass(slots=True)
class Rates:
    """An hour of all, by state, team and workload, in one currency: what is of another has no amount here."""

    total: Spent = field(default_factory=Spent)
    states: defaultdict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    teams: defaultdict[Spender, Spent] = field(default_factory=lambda: defaultdict(Spent))
    workloads: defaultdict[Spender, Spent] = field(default_factory=lambda: defaultdict(Spent))


def rates_of(burn: Burn, currency: str) -> Rates:
    found = Rates()
    for one in burn.rates:
        workload, team, bucket, basis = one.keys
        state = state_of(str(bucket), str(basis))
        into = [found.total, found.states[state]]
        whole, single = spenders(workload, team)
        into += [found.teams[whole]] if single is None else [found.teams[whole], found.workloads[single]]
        for spent in into:
            spent.gpus += one.gpus
            if one.currency and one.currency == currency:
                spent.quanta += one.quanta
                spent.is_priced = True
    return found


def spent_in(sums: Iterable[Sum], currency: str, for_nothing: Sequence[str]) -> Rates:
    """The same of what was spent in a span, by (workload, team, bucket)."""
    found = Rates()
    for one in sums:
        workload, team, bucket = one.keys
        whole, single = spenders(workload, team)
        into = [found.total, found.teams[whole]]
        if single is not None:
            into.append(found.workloads[single])
        for spent in into:
            spent.unpriced_ms += one.unpriced_ms
            if one.currency and one.currency == currency:
                spent.quanta += one.quanta
                spent.is_priced = True
                if bucket in for_nothing:
                    spent.lost += one.quanta
    return found


def spenders(workload: object, team: object) -> tuple[Spender, Spender | None]:
    """Of a row's keys: its team, and its workload."""
    if FLEET_KEY in (workload, team):
        return Spender(None, None, is_fleet=True), None
    name = str(team) if team is not None else None
    whole = Spender(name, None)
    return whole, Spender(name, workload) if isinstance(workload, WorkloadKey) else None


def state_of(bucket: str, basis: str) -> str:
    """What is held with nobody telling what for is booked as productive; whether it is, is unknown."""
    if bucket == Bucket.UNALLOCATED:
        return "idle"
    if bucket == Bucket.BROKEN:
        return "broken"
    if bucket not in _BUSY:
        return "wasted"
    return "unknown" if basis == Basis.NONE else "busy"


def gpu_states(rates: Rates) -> list[GpuState]:
    """Whole GPUs that add up to as many as there are: the largest remainders are rounded up."""
    means = [rates.states[name].gpus for name in STATES]
    whole = [int(mean) for mean in means]
    left = round(sum(means)) - sum(whole)
    by_remainder = sorted(range(len(means)), key=lambda at: whole[at] - means[at])
    for at in by_remainder[:left]:
        whole[at] += 1
    return [GpuState(name, gpus, rates.states[name].amount) for name, gpus in zip(STATES, whole, strict=True)]
