"""Whether a query can be read, and where it cannot."""

from __future__ import annotations

import msgspec

from trilens.model.errors import PromQLSyntaxError, QueryError
from trilens.promql.parse import prettify


class QueryFault(msgspec.Struct, frozen=True):
    """`position` is the offset in characters where reading stopped making sense; null where it is all."""

    position: int | None
    text: str


class CheckedQuery(msgspec.Struct, frozen=True):
    """`pretty` is the query as it is written well, null where it cannot be read."""

    pretty: str | None
    fault: QueryFault | None


def checked(query: str) -> CheckedQuery:
    try:
        return CheckedQuery(prettify(query), None)
    except PromQLSyntaxError as e:
        return CheckedQuery(None, QueryFault(e.position, e.reason))
    except QueryError as e:
        return CheckedQuery(None, QueryFault(None, str(e)))
