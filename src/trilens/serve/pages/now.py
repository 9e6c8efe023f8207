"""/api/now: the page that people see first, in one answer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from trilens.ledger.answers.cost import whole_hours
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Window
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.seen_trouble import seen_incidents
from trilens.serve.access.sight import WHOLE, sight_of
from trilens.serve.money.cost_params import read_window
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.now_answers import NowPageAnswer
from trilens.serve.pages.now_changes import DAY_MS, before, changes, new_incidents
from trilens.serve.pages.now_money import INCIDENTS, incidents_now, lost_by, money_now, unbooked_gpus
from trilens.serve.routes import route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import FactSource, LedgerBook
    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.gpu_bindings import GpusNow
    from trilens.serve.incidents.incidents_api import KeptIncidents, OpenIncidents
    from trilens.serve.pages.now_changes import Before
    from trilens.serve.pages.now_money import MoneyNow
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

_LASTS_MS: Final = 12 * HOUR_MS
_FRESH_S: Final = 15.0  # money is booked once a minute: asked for so often, it is told soon enough
_OLD_S: Final = 90.0  # nobody looked for so long: who comes first waits for what is new
_KEPT_SPANS: Final = 32
_NEW_INCIDENTS: Final = 500


class GpusSeen(Protocol):
    @property
    def now(self) -> GpusNow: ...


class _Known(NamedTuple):
    """What takes long to work out, and when that was done."""

    made_s: float
    money: MoneyNow
    lately: Sequence[Incident]


class _Asked(NamedTuple):
    """What one asker is told is no other's, unless both see the same."""

    sight: Sight
    from_ms: int
    to_ms: int


class NowApi(PageApi):
    """Money is the same for all who see the same, and at most 90 s old; incidents and GPUs are of now."""

    def __init__(
        self,
        book: LedgerBook,
        facts: FactSource,
        lasting: OpenIncidents,
        kept: KeptIncidents,
        gpus: GpusSeen,
        workloads: Workloads,
        questions: Questions,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._facts = facts
        self._lasting = lasting
        self._kept = kept
        self._gpus = gpus
        self._workloads = workloads
        self._questions = questions
        self._clock_s = clock_s
        self._known: dict[_Asked, _Known] = {}
        self._renewing: set[_Asked] = set()
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[_Asked, threading.Lock] = WeakValueDictionary()
        self._before: dict[Sight, tuple[int, Before | None]] = {}

    def routes(self) -> list[GuardedRoute]:
        return [route("/api/now", self.now, narrowed=True)]

    def booked(self, now_ms: int) -> None:
        """What the page shows at first is worked out once more while nobody waits."""
        _, end_ms = whole_hours(now_ms, now_ms + 1)
        self._make_later(_Asked(WHOLE, end_ms - _LASTS_MS, end_ms), now_ms)

    async def now(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        asked = read_window(params, now_ms, _LASTS_MS)
        sight = sight_of(request)
        key = _Asked(sight, asked.from_ms, asked.to_ms)
        trouble = self._gpus.now.trouble
        warnings = sight.warnings([f"GPUs may be shown as they were: {trouble}"] if trouble else [])
        return await self._questions.answer(request, lambda guard: self._answer(key, now_ms, guard), warnings)

    def _answer(self, asked: _Asked, now_ms: int, guard: QueryGuard) -> NowPageAnswer:
        known, sight = self._looked_up(asked, now_ms, guard), asked.sight
        money, was = known.money, known.money.before
        lasting = seen_incidents(self._lasting.open(), self._workloads, sight, guard)
        gpus = self._gpus.now
        nodes = [one for one in gpus.nodes if sight.teams is None and sight.shows_cluster(one.cluster)]
        states = unbooked_gpus(gpus) if sight.is_whole else []
        every = {one.id: one for one in (*known.lately, *lasting)}
        new = new_incidents(every.values(), _since_ms(was, now_ms), money.currency)
        return NowPageAnswer(
            now_ms,
            money.currency or None,
            was.at_ms if was is not None else None,
            was.is_yesterday if was is not None else False,
            money.burn,
            list(money.gpus) if money.gpus is not None else states,
            incidents_now(lasting, money),
            max(0, len(lasting) - INCIDENTS),
            lost_by(lasting, money.currency),
            money.money,
            list(money.teams),
            list(money.workloads),
            changes(money.rates, money.rates_before, new, nodes),
            list(money.doubts),
        )

    def _looked_up(self, key: _Asked, now_ms: int, guard: QueryGuard) -> _Known:
        """What is not fresh is told once more, while it is worked out anew for those who come next."""
        known = self._lasting_one(key)
        if known is None:
            with self._turn(key):  # who comes meanwhile waits for the same
                known = self._lasting_one(key)
                if known is None:
                    known = self._made(key, now_ms, guard)
                    self._keep(key, known)
        elif self._clock_s() - known.made_s > _FRESH_S:
            self._make_later(key, now_ms)
        return known

    def _lasting_one(self, key: _Asked) -> _Known | None:
        with self._lock:
            known = self._known.get(key)
        return known if known is not None and self._clock_s() - known.made_s <= _OLD_S else None

    def _turn(self, key: _Asked) -> threading.Lock:
        """One for each span, as long as somebody has it: who looks at another span does not wait."""
        with self._lock:
            turn = self._turns.get(key)
            if turn is None:
                turn = self._turns[key] = threading.Lock()
            return turn

    def _make_later(self, key: _Asked, now_ms: int) -> None:
        with self._lock:
            if key in self._renewing:
                return
            self._renewing.add(key)
        self._questions.runner.later(lambda guard: self._renew(key, now_ms, guard))

    def _renew(self, key: _Asked, now_ms: int, guard: QueryGuard) -> None:
        try:
            self._keep(key, self._made(key, now_ms, guard))
        finally:
            self._renewing.discard(key)

    def _keep(self, key: _Asked, known: _Known) -> None:
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = known
            while len(self._known) > _KEPT_SPANS:
                del self._known[next(iter(self._known))]

    def _made(self, asked: _Asked, now_ms: int, guard: QueryGuard) -> _Known:
        sight, window = asked.sight, Window(asked.from_ms, asked.to_ms)
        book = seen_book(self._book, sight)
        was = self._compared(book, sight, now_ms, guard)
        money = money_now(book, self._facts, window, now_ms, was, guard)
        since_ms = _since_ms(was, now_ms)
        every = self._kept.during(since_ms, now_ms, limit=_NEW_INCIDENTS, guard=guard)
        lately = seen_incidents(every, self._workloads, sight, guard)
        return _Known(self._clock_s(), money, lately)

    def _compared(self, book: LedgerBook, sight: Sight, now_ms: int, guard: QueryGuard) -> Before | None:
        """Hours that are over seldom change: looked up once an hour, and while there is none."""
        hour = now_ms // HOUR_MS
        known_hour, was = self._before.get(sight, (0, None))
        if known_hour != hour or was is None:
            was = before(book, now_ms, guard)
            with self._lock:
                self._before = {one: kept for one, kept in self._before.items() if kept[0] == hour}
                self._before[sight] = hour, was
        return was


def _since_ms(was: Before | None, now_ms: int) -> int:
    return was.at_ms if was is not None else now_ms - DAY_MS
