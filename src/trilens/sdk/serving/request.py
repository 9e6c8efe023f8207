"""One request from its arrival to the end of its answer."""

from __future__ import annotations

from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING

from trilens.sdk.guard import describe
from trilens.sdk.serving.figures import Outcome

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from trilens.sdk.serving.figures import ModelFigures
    from trilens.sdk.serving.program import ServingProgram

OK = "ok"
ERROR = "error"
CANCELLED = "cancelled"  # who asked does not want the answer any more

CURRENT: ContextVar[Request | None] = ContextVar("trilens_request", default=None)


def leave(token: Token[Request | None]) -> None:
    try:
        CURRENT.reset(token)
    except (ValueError, RuntimeError):  # in another context than it was entered in, or for the second time
        CURRENT.set(None)


class Request:
    """Begun when it is made. Nothing it is told raises; what it is told after its end is not counted."""

    __slots__ = (
        "_arrived",
        "_completion",
        "_figures",
        "_first_token_s",
        "_program",
        "_prompt",
        "_token",
    )

    def __init__(self, program: ServingProgram, model: object, version: object) -> None:
        self._program = program
        self._figures: ModelFigures | None = program.figures_of(model, version)
        self._figures.begin()
        self._first_token_s: float | None = None
        self._prompt: int | None = None
        self._completion: int | None = None
        self._token: Token[Request | None] | None = None
        self._arrived = perf_counter()

    def first_token(self) -> None:
        """The first part of the answer is there; only the first call counts."""
        if self._first_token_s is None:
            self._first_token_s = perf_counter() - self._arrived

    def tokens(self, *, prompt: int | None = None, completion: int | None = None) -> None:
        """Adds up over calls."""
        if prompt is not None:
            self._prompt = self._added(self._prompt, prompt)
        if completion is not None:
            self._completion = self._added(self._completion, completion)

    def set_model(self, model: object, version: object = None) -> None:
        """For a program that knows the model only once it has read the request."""
        figures = self._program.figures_of(model, version)
        if self._figures is not None and figures is not self._figures:
            figures.begin()
            self._figures.leave()
            self._figures = figures

    def end(self, code: str = OK, error: str | None = None) -> None:
        figures, self._figures = self._figures, None
        if figures is not None:
            figures.end(
                Outcome(
                    code,
                    error,
                    perf_counter() - self._arrived,
                    self._first_token_s,
                    self._prompt,
                    self._completion,
                )
            )

    def end_by(self, error: BaseException | None) -> None:
        """What is not an Exception (a generator that is closed, a task that is cancelled, Ctrl-C) is no fault
        of the server."""
        if error is None:
            self.end()
        elif isinstance(error, Exception):
            self.end(ERROR, type(error).__qualname__)
        else:
            self.end(CANCELLED)

    def __enter__(self) -> Request:
        self._token = CURRENT.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end_by(error)
        if self._token is not None:
            leave(self._token)

    def _added(self, before: int | None, more: int) -> int | None:
        try:
            number = int(more)
            if number < 0:
                raise ValueError(f"{number} is below zero")
        except Exception as error:  # noqa: BLE001 - whatever a program may hand over
            self._program.guard.lost("tokens", why=describe(error))
            return before
        return number + (before or 0)
