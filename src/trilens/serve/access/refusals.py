"""Those of a minute, counted by kind: a flood is few entries, and hides nobody else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from trilens.model.audit import AuditEntry

_MOST_KINDS: Final = 200  # of whoever is known, and as many of strangers; all others are one entry more
_SHARE: Final = 50  # of them, of one who asks; all others of his are one entry more
_OTHERS: Final = "(others)"

_Key: TypeAlias = "tuple[object, ...]"


class _Asker(NamedTuple):
    """Whoever is known, from wherever; of strangers one site."""

    who: str
    how: str
    site: str


class Refusals:
    def __init__(self) -> None:
        self._counted: dict[_Key, AuditEntry] = {}
        self._kinds: Counter[_Asker | bool] = Counter()  # of an asker; of all that are known, or are not

    def add(self, entry: AuditEntry, site: str) -> AuditEntry | None:
        """What is to be told now: the first of its kind."""
        key, seen_as = self._kind(entry, site)
        before = self._counted.get(key)
        if before is None:
            self._counted[key] = seen_as
            return seen_as
        self._counted[key] = replace(before, count=before.count + 1, until_ms=entry.t_ms)
        return None

    def end(self) -> list[AuditEntry]:
        """Those that there were several of. From now on it is another minute."""
        several = [entry for entry in self._counted.values() if entry.count > 1]
        self._counted.clear()
        self._kinds.clear()
        return several

    def _kind(self, entry: AuditEntry, site: str) -> tuple[_Key, AuditEntry]:
        is_known = bool(entry.who)
        asker = _Asker(entry.who, entry.how, "" if is_known else site)
        key: _Key = (asker, site, entry.method, entry.route, entry.status)
        if key in self._counted:
            return key, entry
        if self._kinds[asker] < _SHARE and self._kinds[is_known] < _MOST_KINDS:
            self._kinds[asker] += 1
            self._kinds[is_known] += 1
            return key, entry
        # Who it was is kept as long as there is room, which is twice that of kinds.
        others = replace(entry, route=_OTHERS, object="")
        own: _Key = (asker, _OTHERS)
        if own in self._counted:
            return own, others
        if (is_known or self._kinds[asker]) and self._kinds[is_known] < 2 * _MOST_KINDS:
            self._kinds[is_known] += 1
            return own, replace(others, peer=_OTHERS, client="") if is_known else others
        return (is_known, _OTHERS), replace(others, who="", how="", peer=_OTHERS, client="")
