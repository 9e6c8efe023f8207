"""Tokens and the audit in memory, as the store keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trilens.model.audit import AuditKind

if TYPE_CHECKING:
    from trilens.model.access_token import AccessToken
    from trilens.model.audit import AuditEntry


@dataclass
class MemoryTokens:
    tokens: dict[str, AccessToken] = field(default_factory=dict)
    is_settled: bool = True

    def made(self, token: AccessToken) -> None:
        self.tokens[token.id] = token

    def revoked(self, id: str, by: str, t_ms: int) -> None:
        self.tokens[id] = replace(self.tokens[id], revoked_ms=t_ms, revoked_by=by)

    def used(self, id: str, t_ms: int) -> None:
        self.tokens[id] = replace(self.tokens[id], used_ms=t_ms)

    def settled(self, _timeout_s: float) -> bool:
        return self.is_settled

    def every(self) -> list[AccessToken]:
        return [*self.tokens.values()]


@dataclass
class MemoryAudit:
    entries: dict[str, AuditEntry] = field(default_factory=dict)
    is_settled: bool = True

    def settled(self, _timeout_s: float) -> bool:
        return self.is_settled

    def put(self, entry: AuditEntry) -> None:
        self.entries[entry.id] = entry

    def latest(
        self, from_ms: int, to_ms: int, limit: int, *, who: str = "", guard: Any = None
    ) -> list[AuditEntry]:
        found = [
            one
            for one in self.entries.values()
            if from_ms <= one.t_ms <= to_ms and (not who or _is_by(one, who))
        ]
        return sorted(found, key=lambda one: -one.t_ms)[:limit]

    def logged_out(self, since_ms: int) -> dict[str, int]:
        return {
            one.who: one.t_ms
            for one in self.entries.values()
            if one.kind is AuditKind.LOGOUT and one.t_ms >= since_ms
        }


def _is_by(entry: AuditEntry, who: str) -> bool:
    return entry.who in (who, f"token:{who}") or entry.how in (who, f"token {who}")
