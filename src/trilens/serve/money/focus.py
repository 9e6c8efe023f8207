"""/api/cost/focus: the ledger as a FOCUS 1.2 data set, in pieces as they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from trilens.ledger.answers.cost import hours_known
from trilens.ledger.focus.rows import Issuer, focus_batches, unpriced_ms
from trilens.ledger.focus.writing import FocusFormat, focus_pieces
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS
from trilens.model.query import QueryGuard
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.money.cost_params import read_window

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Window
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_LONGEST_S: Final = 3_600.0  # a month of ten thousand GPUs; it ends with its client


class FocusApi:
    def __init__(
        self,
        book: LedgerBook,
        questions: Questions,
    ) -> None:
        self._book = book
        self._questions = questions

    async def export(self, request: Request) -> Response:
        params = await self._questions.params(request)
        book, now_ms = seen_book(self._book, sight_of(request)), self._questions.now_ms()
        window, form, issuer = read_window(params, now_ms), _format(params), _issuer(params)
        guard = QueryGuard(timeout_s=_LONGEST_S)

        def beside() -> dict[str, str]:
            """What a table of costs has no place for. An error that is met here still has its status."""
            booked = book.hours(window.from_ms, window.to_ms, guard=guard)
            hours = hours_known(booked, window, now_ms)
            left_out_ms = unpriced_ms(book, window, guard=guard)
            return {
                "Trilens-Unpriced-Gpu-Hours": f"{left_out_ms / HOUR_MS:.3f}",
                "Trilens-Hours-Missing": str(hours.asked - hours.booked),
                "Trilens-Hours-Open": str(hours.open),
            }

        told = await self._questions.runner.run(request, guard, beside)
        pieces = focus_pieces(focus_batches(book, window, issuer, guard=guard), form)
        return StreamingResponse(
            self._sent(request, guard, pieces),
            headers=told | {"Content-Disposition": f'attachment; filename="{_file_name(window, form)}"'},
            media_type=form.media_type,
        )

    async def _sent(
        self, request: Request, guard: QueryGuard, pieces: Iterator[bytes]
    ) -> AsyncIterator[bytes]:
        """The next is made when the last has gone: a slow client fills no memory."""
        while (
            piece := await self._questions.runner.run(request, guard, lambda: next(pieces, None))
        ) is not None:
            yield piece


def _format(params: Params) -> FocusFormat:
    asked = params.first("format") or FocusFormat.CSV
    try:
        return FocusFormat(asked)
    except ValueError as e:
        raise RequestError(f'invalid parameter "format": {asked!r} is neither csv nor parquet') from e


def _issuer(params: Params) -> Issuer:
    named = {name: text for name in Issuer._fields if (text := params.first(name).strip())}
    return Issuer(**named)


def _file_name(window: Window, form: FocusFormat) -> str:
    first, last = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (window.from_ms, window.to_ms))
    return f"focus-{first:%Y%m%dT%H}-{last:%Y%m%dT%H}.{form}"
