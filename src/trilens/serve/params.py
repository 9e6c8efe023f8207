"""Request parameters, read and refused as Prometheus reads and refuses them."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from trilens.model.errors import RequestError
from trilens.settings.duration import duration_ms

if TYPE_CHECKING:
    from starlette.requests import Request

MIN_TIME_MS: Final = 0
MAX_TIME_MS: Final = 253_402_300_799_999  # the end of the year 9999
MAX_POINTS: Final = 11_000  # a day at 8 s, or a week at a minute: what Prometheus allows in one answer

MAX_SELECTORS: Final = 1_000  # in one request: each is a read of its own

_MAX_FORM: Final = 1 << 20  # of parameters; samples and records come otherwise, and may be larger
_MAX_FIELDS: Final = 10_000
_AT_ONCE: Final = 64 << 10  # what the address may have, too; more takes tenths of a second to read
_SKEW_MS: Final = 60_000  # by so much a client's clock may be ahead

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FOREVER = {  # how Prometheus's own clients write "since ever" and "for ever"
    "-292273086-05-16T16:47:06Z": MIN_TIME_MS,
    "292277025-08-18T07:12:54.999999999Z": MAX_TIME_MS,
}


class Params:
    """Form and query parameters of one request; the form's come first."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(self._pairs)

    def first(self, name: str) -> str:
        return next((value for key, value in self._pairs if key == name), "")

    def every(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def selectors(self, name: str) -> list[str]:
        """Every one, where there are no more than can be answered at once."""
        found = self.every(name)
        if len(found) > MAX_SELECTORS:
            raise RequestError(
                f'invalid parameter "{name}": {len(found):,} of them, where {MAX_SELECTORS:,} may be',
                hint="ask for some at a time, or write one selector that matches several names with =~",
            )
        return found

    def time_ms(self, name: str, default: int | None = None) -> int:
        text = self.first(name)
        if not text and default is not None:
            return default
        try:
            return parse_time(text)
        except ValueError as e:
            # Prometheus says it longer where the parameter may be left out.
            detail = f"Invalid time value for '{name}': {e}" if default is not None else e
            raise RequestError(f'invalid parameter "{name}": {detail}') from e

    def when_ms(self, name: str, default: int, now_ms: int) -> int:
        """The same for what Prometheus does not have: also `now`, and `-12h` for so long ago, as commands and
        notebooks write them."""
        text = self.first(name)
        if text == "now":
            return now_ms
        if text.startswith("-") and not _NUMBER.fullmatch(text):
            try:
                return now_ms - parse_duration(text[1:])
            except ValueError as e:
                raise RequestError(f'invalid parameter "{name}": {e}') from e
        return self.time_ms(name, default)

    def span_ms(self, now_ms: int, lasts_ms: int) -> tuple[int, int]:
        """From `from` to `to`; so long until now, unless told otherwise."""
        to_ms = self.when_ms("to", now_ms, now_ms)
        from_ms = self.when_ms("from", to_ms - lasts_ms, now_ms)
        if from_ms > to_ms:
            raise RequestError('invalid parameter "from": it lies after "to"')
        return from_ms, to_ms

    def moment_ms(self, name: str, now_ms: int) -> int:
        """Of the present or the past: what is known of now would else be told as if it were to last."""
        asked_ms = self.when_ms(name, now_ms, now_ms)
        if asked_ms > now_ms + _SKEW_MS:
            raise RequestError(f'invalid parameter "{name}": it is in the future, of which nothing is known')
        return min(asked_ms, now_ms)

    def duration_ms(self, name: str) -> int | None:
        """None when it was not given."""
        text = self.first(name)
        if not text:
            return None
        try:
            return parse_duration(text)
        except ValueError as e:
            raise RequestError(f'invalid parameter "{name}": {e}') from e

    def count(self, name: str) -> int | None:
        """A limit; absent and 0 both mean that there is none."""
        text = self.first(name)
        if not text:
            return None
        if not re.fullmatch(r"\d{1,18}", text):
            raise RequestError(f'invalid parameter "{name}": cannot parse "{text}" to a count, 0 or more')
        return int(text) or None

    def range_ms(self) -> tuple[int, int]:
        """`start` and `end` of a request about series or labels; absent means all of time."""
        return self.time_ms("start", MIN_TIME_MS), self.time_ms("end", MAX_TIME_MS)


async def read_params(request: Request, max_body: int) -> Params:
    pairs = _fields(request.scope["query_string"].decode("latin-1"))
    if request.method == "POST" and _is_form(request.headers.get("content-type", "")):
        body = await _read_form(request, max_body)
        try:
            text = body.decode()
        except UnicodeDecodeError as e:
            raise RequestError("the form is not UTF-8") from e
        # The server's loop waits for none that takes long.
        told = _fields(text) if len(text) <= _AT_ONCE else await asyncio.to_thread(_fields, text)
        pairs = told + pairs
    return Params(pairs)


def _fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as e:
        raise RequestError(f"there are more than {_MAX_FIELDS:,} parameters") from e


async def _read_form(request: Request, max_body: int) -> bytes:
    if max_body <= _MAX_FORM:
        return await read_body(request, max_body)
    try:
        return await read_body(request, _MAX_FORM)
    except BodyTooLarge as e:
        raise FormTooLarge(f"the parameters are larger than {_MAX_FORM:,} bytes") from e


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, refused as soon as it is known to be too large."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge(limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(limit)
        chunks.append(chunk)
    return b"".join(chunks)


class BodyTooLarge(RequestError):
    http_status = 413
    hint = "send less at a time, or raise server.max_body"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the request body is larger than {limit:,} bytes")


class FormTooLarge(RequestError):
    http_status = 413
    hint = "ask for less at a time"


def _is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"


def parse_time(text: str) -> int:
    """Seconds since the epoch with or without decimals, or RFC 3339; in milliseconds."""
    if _NUMBER.fullmatch(text) and abs(seconds := float(text)) <= MAX_TIME_MS / 1000:
        return round(seconds * 1000)
    if text in _FOREVER:
        return _FOREVER[text]
    if _RFC3339.fullmatch(text):
        try:
            return round(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError:
            pass
    raise ValueError(f'cannot parse "{text}" to a valid timestamp')


def parse_duration(text: str) -> int:
    """Seconds as a number, or a duration such as 5m; in milliseconds."""
    if _NUMBER.fullmatch(text):
        seconds = float(text)
        if abs(seconds) > MAX_TIME_MS / 1000:
            raise ValueError(f'cannot parse "{text}" to a valid duration. It overflows int64')
        return round(seconds * 1000)
    try:
        return duration_ms(text)
    except ValueError as e:
        raise ValueError(f'cannot parse "{text}" to a valid duration') from e
