"""Tokens, and who did what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.access_token import AccessToken
from trilens.model.audit import AuditEntry, AuditKind
from trilens.store import sql
from trilens.store.workload_rows import Table

if TYPE_CHECKING:
    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine
    from trilens.store.record_writer import RecordWriter

# Never deleted: were a revocation to go before what it revokes, the token would be valid again.
ACCESS_TOKENS: Final = Table("access_tokens", ("id", "fact"), ("t_ms", "body"), over=None)
AUDIT: Final = Table("audit", ("t_ms", "id"), ("kind", "who", "body"), over="t_ms")
ACCESS_TABLES: Final = (ACCESS_TOKENS, AUDIT)

_TOKEN: Final = msgspec.json.Decoder(AccessToken)
_ENTRY: Final = msgspec.json.Decoder(AuditEntry)


class TokenRecords:
    """Thread-safe. A revoked token stays revoked, whatever is told of it afterwards."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def made(self, token: AccessToken) -> None:
        body = msgspec.json.encode(token).decode()
        self._put(token.id, "made", token.created_ms or 0, body)

    def revoked(self, id: str, by: str, t_ms: int) -> None:
        self._put(id, "revoked", t_ms, by)

    def used(self, id: str, t_ms: int) -> None:
        self._put(id, "used", t_ms, "")

    def settled(self, timeout_s: float) -> bool:
        """Waits until all that was told is on disk, for so long at the most; whether it is."""
        return self._writer.settled(timeout_s)

    def every(self) -> list[AccessToken]:
        """Also those that are revoked or over."""
        facts: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
        statement = ACCESS_TOKENS.selected((), "id, fact")
        for row in self._engine.query_arrow(statement).to_pylist():
            facts[row["id"]][row["fact"]] = (row["t_ms"], row["body"])
        return [_token(known) for known in facts.values() if "made" in known]

    def _put(self, id: str, fact: str, t_ms: int, body: str) -> None:
        self._writer.put(ACCESS_TOKENS, {"id": id, "fact": fact, "t_ms": t_ms, "body": body})


class AuditRecords:
    """Thread-safe. An entry that is told again replaces what was told."""

    def __init__(self, engine: Engine, writer: RecordWriter) -> None:
        self._engine = engine
        self._writer = writer

    def put(self, entry: AuditEntry) -> None:
        body = msgspec.json.encode(entry).decode()
        row = {"id": entry.id, "t_ms": entry.t_ms, "kind": entry.kind.value, "who": entry.who, "body": body}
        self._writer.put(AUDIT, row)

    def settled(self, timeout_s: float) -> bool:
        """Waits until all that was told is on disk, for so long at the most; whether it is."""
        return self._writer.settled(timeout_s)

    def latest(
        self, from_ms: int, to_ms: int, limit: int, *, who: str = "", guard: QueryGuard | None = None
    ) -> list[AuditEntry]:
        """`who` did it: as it is told there, or of a token its name or id alone."""
        terms = [f"t_ms >= {int(from_ms)}", f"t_ms <= {int(to_ms)}"]
        if who:
            names = f"who IN ({sql.text(who)}, {sql.text(f'token:{who}')})"
            hows = f"({sql.text(who)}, {sql.text(f'token {who}')})"
            terms.append(f"({names} OR JSONExtractString(body, 'how') IN {hows})")
        statement = AUDIT.selected(terms, "t_ms DESC, id") + f" LIMIT {int(limit)}"
        found = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return [_ENTRY.decode(row["body"]) for row in found]

    def logged_out(self, since_ms: int) -> dict[str, int]:
        """When each who logged out did so last."""
        statement = (
            f"SELECT who, max(t_ms) AS latest_ms FROM {AUDIT.name} FINAL "
            f"WHERE kind = {sql.text(AuditKind.LOGOUT)} AND t_ms >= {int(since_ms)} GROUP BY who"
        )
        return {row["who"]: row["latest_ms"] for row in self._engine.query_arrow(statement).to_pylist()}


def _token(facts: dict[str, tuple[int, str]]) -> AccessToken:
    token = _TOKEN.decode(facts["made"][1])
    if "used" in facts:
        token = replace(token, used_ms=facts["used"][0])
    if "revoked" in facts:
        token = replace(token, revoked_ms=facts["revoked"][0], revoked_by=facts["revoked"][1])
    return token
