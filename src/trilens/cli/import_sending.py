"""Rows that were checked, on their way to the server: some thousand at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.cli.client import Client
from trilens.model.errors import ServerError
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trilens.cli.progress import Advance

_PART_BYTES: Final = 512 << 10  # well below server.max_body, and on disk within a second


class Sent:
    def __init__(self) -> None:
        self.rows = 0
        self._changed: set[int] = set()
        self.expired = 0
        self.warnings: list[str] = []

    @property
    def changed_hours(self) -> int:
        """Of the ledger, to be computed again."""
        return len(self._changed)

    def add(self, answer: dict[str, Any]) -> None:
        told = answer["data"]
        self.rows += told["rows"]
        self.expired += told["expired"]
        for from_ms, to_ms in told["changed"]:
            self._changed.update(range(from_ms, to_ms, HOUR_MS))
        self.warnings += [text for text in answer.get("warnings", []) if text not in self.warnings]


def send(
    server: str | None, kind: str, params: Mapping[str, str], lines: Iterable[bytes], advance: Advance
) -> Sent:
    """What is there already is told again without harm, so one that broke off is simply done again."""
    sent = Sent()
    done = 0
    with Client(server) as client:
        for part in _parts(lines):
            try:
                answer = client.post(f"/api/v1/import/{kind}", body=part, params=dict(params))
            except ServerError as e:
                if sent.rows:
                    e.hint = f"{sent.rows:,} rows before it were taken; running it again is harmless"
                raise
            sent.add(answer)
            done += len(part)
            advance(done, sent.rows)
    return sent


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= _PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)
