"""/api/receivers and /api/silences: who is told, how that goes, and what nobody is told of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from trilens.model.errors import NotFound, RequestError
from trilens.model.identity import Right
from trilens.serve.access.authors import author
from trilens.serve.access.seen_silences import bound_matchers, shows_silence
from trilens.serve.access.sight import sight_of
from trilens.serve.params import read_body
from trilens.serve.routes import DETAIL, route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.alert.delivery.silences import Silence
    from trilens.serve.delivery import DeliveryKeeper, OutletReport
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute

_LONGEST_TEXT: Final = 2_000
_MOST_MATCHERS: Final = 20
_LONGEST_MATCHERS: Final = 10_000  # together: each symptom is held against each of them
_MOST_BODY: Final = 1 << 20
_LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999: nobody can show what is later

_Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)]


class ReceiverAnswer(msgspec.Struct, frozen=True):
    """One place that messages go to; counts are since the server's start. Null is "not yet" or "nothing"."""

    receiver: str
    kind: str
    where: str
    state: str  # ok, failing, or idle where nothing was sent yet
    waiting: int
    waiting_since_ms: int | None
    sent: int
    failed: int  # tries
    refused: int  # messages that it will not take
    dropped: int  # messages given up for want of room
    last_ok_ms: int | None
    last_error_ms: int | None
    last_error: str | None
    next_try_ms: int | None


class TestAnswer(msgspec.Struct, frozen=True):
    where: str
    ok: bool
    error: str | None


class SilenceAnswer(msgspec.Struct, frozen=True):
    id: str
    state: str  # pending, active, expired
    matchers: tuple[str, ...]
    from_ms: int
    to_ms: int
    author: str
    comment: str
    created_ms: int


class NewSilence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    matchers: tuple[str, ...]
    to_ms: _Moment
    author: str
    comment: str
    from_ms: _Moment | None = None  # now


@dataclass(frozen=True, slots=True)
class DeliveryApis:
    keeper: DeliveryKeeper
    questions: Questions

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/v1/alertmanagers", self.alertmanagers),
            route("/api/receivers", self.receivers),
            route("/api/receivers/{name}/test", self.test, "POST", needs=Right.ADMIN),
            route("/api/silences", self.silences, narrowed=True),
            route("/api/silences", self.add_silence, "POST", needs=Right.FIX, narrowed=True),
            route("/api/silences/{id}/expire", self.expire_silence, "POST", needs=Right.FIX, narrowed=True),
        ]

    async def alertmanagers(self, request: Request) -> Response:
        """As Prometheus tells which it sends alerts to."""

        def read(_guard: object) -> dict[str, list[dict[str, str]]]:
            outlets = [report.outlet for report in self.keeper.reports()]
            told = [{"url": f"{one.where}/api/v2/alerts"} for one in outlets if one.takes_alerts]
            return {"activeAlertmanagers": told, "droppedAlertmanagers": []}

        return await self.questions.answer(request, read)

    async def receivers(self, request: Request) -> Response:
        return await self.questions.answer(
            request, lambda _guard: [_receiver(report) for report in self.keeper.reports()]
        )

    async def test(self, request: Request) -> Response:
        name: str = request.path_params["name"]

        def read(_guard: object) -> list[TestAnswer]:
            return [TestAnswer(one.where, one.error is None, one.error) for one in self.keeper.test(name)]

        return await self.questions.answer(request, read)

    async def silences(self, request: Request) -> Response:
        """Those in force and to come; with `all`, those of the last days, too."""
        params = await self.questions.params(request)
        now_ms, wants_all = self.questions.now_ms(), bool(params.first("all"))
        sight = sight_of(request)

        def read(_guard: object) -> list[SilenceAnswer]:
            seen = [one for one in self.keeper.silences.every() if shows_silence(one, sight)]
            told = [_silence(one, now_ms) for one in seen]
            return [one for one in told if wants_all or one.state != "expired"]

        return await self.questions.answer(request, read)

    async def add_silence(self, request: Request) -> Response:
        body = await read_body(request, min(_MOST_BODY, self.questions.max_body))
        try:
            wanted = msgspec.json.decode(body, type=NewSilence)
        except msgspec.MsgspecError as e:
            raise RequestError(f"not a silence: {e}") from e
        if max(len(wanted.author), len(wanted.comment)) > _LONGEST_TEXT:
            raise RequestError(f"author and comment may have {_LONGEST_TEXT:,} characters each")
        if len(wanted.matchers) > _MOST_MATCHERS:
            hint = "one with =~ takes several values; or add several silences"
            raise RequestError(f"a silence may have {_MOST_MATCHERS} matchers", hint=hint)
        if sum(map(len, wanted.matchers)) > _LONGEST_MATCHERS:
            raise RequestError(f"matchers may have {_LONGEST_MATCHERS:,} characters together")
        now_ms, by = self.questions.now_ms(), author(request, wanted.author)
        matchers = bound_matchers(wanted.matchers, sight_of(request))
        request.scope[DETAIL] = f"{', '.join(matchers)} until {_stamp(wanted.to_ms)}"

        def add(_guard: object) -> SilenceAnswer:
            from_ms = wanted.from_ms if wanted.from_ms is not None else now_ms
            silence = self.keeper.silences.add(matchers, from_ms, wanted.to_ms, by, wanted.comment, now_ms)
            self.keeper.silenced()
            return _silence(silence, now_ms)

        return await self.questions.answer(request, add)

    async def expire_silence(self, request: Request) -> Response:
        name: str = request.path_params["id"]
        now_ms, sight = self.questions.now_ms(), sight_of(request)

        def expire(_guard: object) -> SilenceAnswer:
            known = next((one for one in self.keeper.silences.every() if one.id == name), None)
            if known is None or not shows_silence(known, sight):
                raise NotFound(f"there is no silence {name!r}")
            request.scope[DETAIL] = ", ".join(known.matchers)
            silence = self.keeper.silences.expire(name, now_ms)
            self.keeper.silenced()
            return _silence(silence, now_ms)

        return await self.questions.answer(request, expire)


def _stamp(t_ms: int) -> str:
    return datetime.fromtimestamp(t_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _receiver(report: OutletReport) -> ReceiverAnswer:
    outlet, state, backlog, dropped = report
    was_used = state.last_ok_ms is not None or state.last_error_ms is not None
    return ReceiverAnswer(
        outlet.receiver,
        outlet.kind,
        outlet.where,
        ("ok" if state.is_well else "failing") if was_used else "idle",
        backlog.count,
        backlog.oldest_ms if backlog.count else None,
        state.sent,
        state.failed,
        state.refused,
        dropped,
        state.last_ok_ms,
        state.last_error_ms,
        state.last_error,
        state.again_ms,
    )


def _silence(silence: Silence, now_ms: int) -> SilenceAnswer:
    return SilenceAnswer(
        silence.id,
        silence.state(now_ms),
        silence.matchers,
        silence.from_ms,
        silence.to_ms,
        silence.author,
        silence.comment,
        silence.created_ms,
    )
