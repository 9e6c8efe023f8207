"""Files of samples on their way to a server or a directory, with progress, and a report of what arrived."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trilens.cli.compressed import unpacked
from trilens.cli.opened_file import STDIN, opened
from trilens.cli.pieces import file_has_end, has_end, pieces
from trilens.cli.progress import progress
from trilens.cli.times import show_moment
from trilens.model.errors import IntakeError, NothingWritten, TrilensError

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trilens.cli.compressed import Readable
    from trilens.cli.pieces import Piece

_NO_END = "the text does not end with # EOF"
_FORMATS = "the file was cut off, or is not OpenMetrics: see --format"


class Outcome(Protocol):
    """What became of one piece."""

    @property
    def samples(self) -> int: ...
    @property
    def expired(self) -> int: ...
    @property
    def oldest_ms(self) -> int | None: ...
    @property
    def newest_ms(self) -> int | None: ...


class Receiver(Protocol):
    def __call__(self, piece: Piece) -> Outcome: ...


@dataclass(slots=True)
class FileReport:
    file: str
    samples: int = 0
    expired: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None

    def add(self, outcome: Outcome) -> None:
        self.samples += outcome.samples
        self.expired += outcome.expired
        if outcome.oldest_ms is not None and outcome.newest_ms is not None:
            first, last = self.oldest_ms, self.newest_ms
            self.oldest_ms = outcome.oldest_ms if first is None else min(first, outcome.oldest_ms)
            self.newest_ms = outcome.newest_ms if last is None else max(last, outcome.newest_ms)

    def as_dict(self) -> dict[str, object]:
        return {
            "file": self.file,
            "samples": self.samples,
            "expired": self.expired,
            "start": None if self.oldest_ms is None else self.oldest_ms / 1000,
            "end": None if self.newest_ms is None else self.newest_ms / 1000,
        }

    def sentence(self) -> str:
        text = f"{_shown(self.file)}: {self.samples:,} sample{'' if self.samples == 1 else 's'}"
        if self.oldest_ms is not None and self.newest_ms is not None:
            text += f", {show_moment(self.oldest_ms / 1000)} to {show_moment(self.newest_ms / 1000)}"
        if self.expired:
            text += f"; {self.expired:,} left out, older than the server keeps (storage.retention)"
        return text


@contextmanager
def open_receiver(directory: Path | None, server: str | None, text_format: str) -> Iterator[Receiver]:
    if directory is not None:
        from trilens.serve.at_rest import backfill_at_rest

        openmetrics = text_format == "openmetrics"
        with backfill_at_rest(directory) as receiver:
            yield lambda piece: receiver.take(
                piece.text, openmetrics=openmetrics, first_line=piece.first_line
            )
        return
    from trilens.cli.client import Client

    with Client(server) as client:

        def send(piece: Piece) -> FileReport:
            params = {"first_line": str(piece.first_line)}
            answer = client.post(f"/api/v1/import/{text_format}", body=piece.text, params=params)
            return FileReport("", **answer["data"])

        yield send


def load_files(files: Sequence[str], take: Receiver, *, openmetrics: bool) -> Iterator[FileReport]:
    """A report for each file as it is done. Every file is opened before the first one is read."""
    with ExitStack() as opened:
        sources = [opened.enter_context(_open(file, openmetrics)) for file in files]
        for file, source in zip(files, sources, strict=True):
            report = FileReport(file)
            try:
                _load(source, report, take, openmetrics)
            except TrilensError as e:
                raise _stopped(e, report) from e
            yield report


def check_something_written(reports: Sequence[FileReport]) -> None:
    if any(report.samples for report in reports):
        return
    expired = sum(report.expired for report in reports)
    if expired:
        raise NothingWritten(
            f"nothing was written: all {expired:,} samples are older than the server keeps",
            hint="raise storage.retention first",
        )
    raise NothingWritten(f"nothing was written: no samples in {', '.join(_shown(r.file) for r in reports)}")


class _Source(NamedTuple):
    """`position` tells how many bytes of `size` are read, before they are unpacked; None of a pipe."""

    text: Readable
    size: int | None
    position: Callable[[], int] | None


def _load(source: _Source, report: FileReport, take: Receiver, openmetrics: bool) -> None:
    ended = False
    with progress(_shown(report.file), source.size) as advance:
        for piece in pieces(source.text):
            if ended:
                raise IntakeError("text after # EOF", hint="give several files one by one, not joined")
            report.add(take(piece))
            advance(source.position() if source.position is not None else piece.end, report.samples)
            ended = openmetrics and has_end(piece.text)
    if openmetrics and not ended:  # only a stream comes this far: a plain file was looked at before
        raise IntakeError(_NO_END, hint=_FORMATS)


@contextmanager
def _open(file: str, openmetrics: bool) -> Iterator[_Source]:
    with opened(file) as (stream, size, tell):
        text = _text_of(file, stream)
        if openmetrics and text is stream and tell is not None and not file_has_end(stream):
            raise IntakeError(f"{file}: {_NO_END}", hint=_FORMATS)
        yield _Source(text, size, tell)


def _text_of(file: str, stream: io.BufferedReader) -> Readable:
    try:
        return unpacked(stream)
    except IntakeError as e:
        raise IntakeError(f"{_shown(file)}: {e.message}", hint=e.hint) from e


def _stopped(error: TrilensError, report: FileReport) -> TrilensError:
    """Where it stopped, and what is there already."""
    name = _shown(report.file)
    at_line = re.fullmatch(r"line (\d+): (.*)", error.message, re.DOTALL)
    message = f"{name}:{at_line[1]}: {at_line[2]}" if at_line else f"{name}: {error.message}"
    hint = error.hint
    if report.samples:
        done = f"{report.samples:,} samples before it were written; running it again is harmless"
        hint = f"{hint}; {done}" if hint else done
    stopped = IntakeError(message, hint=hint)
    stopped.exit_code = error.exit_code
    return stopped


def _shown(file: str) -> str:
    return "stdin" if file == STDIN else file
