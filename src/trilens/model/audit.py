"""What somebody did, or was not let do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AuditKind(StrEnum):
    CHANGE = "change"
    READ = "read"  # of what is for admins alone
    LOGIN = "login"
    LOGOUT = "logout"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Refusals of one kind within a minute are one entry, with how many there were."""

    id: str
    t_ms: int
    kind: AuditKind
    who: str  # empty: nobody that is known
    how: str  # the door
    peer: str  # the address of the connection
    client: str  # that of who asked, as a trusted proxy tells it; empty where there is none
    method: str
    route: str  # as it is declared: /api/tokens/{id}/revoke
    object: str  # what it was about: id=3f2a
    status: int  # of the answer
    detail: str = ""
    count: int = 1
    until_ms: int | None = None  # of the last one, where there were several
