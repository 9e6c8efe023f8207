"""Every kind that Trilens knows to watch; the permissions it asks for and the docs follow this table.

Labels, annotations and owners are kept of every object; managedFields, last-applied-configuration and very
long annotations of none. Commands, arguments and variables of containers may hold secrets: only the few
variables of `environment.py` are kept, and never what comes from a secret.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from trilens.collect.kubernetes.built_in import BUILT_IN
from trilens.collect.kubernetes.operators import OPERATORS
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.collect.kubernetes.watched_kind import WatchedKind

ALL: Final = (*BUILT_IN, *OPERATORS)
_BY_NAME: Final = {str(kind.group_kind): kind for kind in ALL}


def choose(leave_out: Iterable[str] = (), add: Iterable[str] = ()) -> tuple[WatchedKind, ...]:
    """What is watched unless told otherwise, less and more these: `Event`, `Job.batch.volcano.sh`."""
    without = {_named(name) for name in leave_out}
    added = {_named(name) for name in add}
    return tuple(
        kind
        for name, kind in _BY_NAME.items()
        if name not in without and (name in added or not kind.on_request)
    )


def _named(name: str) -> str:
    if name not in _BY_NAME:
        nearest = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else "see docs/kubernetes.md for every kind"
        raise ConfigError(f"Trilens does not watch any kind {name!r}", hint=hint)
    return name
