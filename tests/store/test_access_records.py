"""Tokens and the audit on disk: no server takes back what another wrote, and revoked stays revoked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.access_token import AccessToken
from trilens.model.audit import AuditEntry, AuditKind
from trilens.model.grants import grant_of
from trilens.store.access import AuditRecords, TokenRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.records import delete_expired_records

if TYPE_CHECKING:
    from trilens.store.engine import Engine

TOKEN = AccessToken(
    "abc", "it's a \\ token", "d" * 64, grant_of(["read", "fix"], ["a"], ["x", "y"]), 1_000, "ada", 9_000
)
ENTRY = AuditEntry(
    "1",
    5_000,
    AuditKind.REFUSAL,
    "o'hara",
    "session",
    "10.0.0.1",
    "192.0.2.1",
    "POST",
    "/x/{id}",
    "id=1",
    403,
    "why",
)


def test_what_happens_to_a_token_is_kept_apart(engine: Engine) -> None:
    here, elsewhere = RecordWriter(engine), RecordWriter(engine)
    try:
        tokens = TokenRecords(engine, here)
        tokens.made(TOKEN)
        tokens.made(replace(TOKEN, id="other", expires_ms=None))
        assert tokens.settled(60)
        TokenRecords(engine, elsewhere).revoked("abc", "eve", 2_000)
        assert elsewhere.settled(60)
        tokens.used("abc", 3_000)  # by a server that does not know yet
        assert tokens.settled(60)
        found = {one.id: one for one in tokens.every()}
        assert found["abc"] == replace(TOKEN, revoked_ms=2_000, revoked_by="eve", used_ms=3_000)
        assert found["other"].revoked_ms is None
        delete_expired_records(engine, 10**15)
        assert len(tokens.every()) == 2
    finally:
        here.close()
        elsewhere.close()


def test_entries_are_found_by_time_and_by_who_and_expire(engine: Engine) -> None:
    writer = RecordWriter(engine)
    try:
        audit = AuditRecords(engine, writer)
        audit.put(ENTRY)
        audit.put(replace(ENTRY, id="2", t_ms=6_000, who="ada", kind=AuditKind.LOGOUT))
        audit.put(replace(ENTRY, id="3", t_ms=7_000, who="ada", kind=AuditKind.LOGOUT))
        audit.put(replace(ENTRY, count=7, until_ms=5_500))
        assert writer.settled(60)
        assert [one.id for one in audit.latest(0, 10_000, 10)] == ["3", "2", "1"]
        assert [one.id for one in audit.latest(0, 10_000, 1)] == ["3"]
        assert [one.id for one in audit.latest(5_500, 6_500, 10)] == ["2"]
        assert audit.latest(0, 10_000, 10, who="o'hara") == [replace(ENTRY, count=7, until_ms=5_500)]
        by_token = replace(ENTRY, id="4", t_ms=5_100, who="token:ci", how="token kqvw")
        audit.put(by_token)
        assert writer.settled(60)
        for who in ("token:ci", "ci", "token kqvw", "kqvw"):
            assert audit.latest(0, 10_000, 10, who=who) == [by_token], who
        assert audit.logged_out(0) == {"ada": 7_000}
        assert audit.logged_out(7_001) == {}
        delete_expired_records(engine, 6_500)
        assert [one.id for one in audit.latest(0, 10_000, 10)] == ["3"]
    finally:
        writer.close()
