"""A case file whose names are replaced: of clusters, namespaces, workloads, pods, nodes, teams and users.

The same name has the same mask everywhere in the file, in log lines too, so that whoever reads it can still
tell who is who. Names that every cluster has stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from trilens.diagnose.daemons import is_daemon_name
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trilens.diagnose.case_file import CaseFile

_Letters: TypeAlias = dict[str, "_Letters"]

# Namespaces and accounts that tell nothing of whose cluster it is, and that evidence knows by name.
_PUBLIC: Final = re.compile(
    r"default|kube-[a-z-]+|gpu-operator|nvidia-[a-z-]+|monitoring|kueue-system|volcano-system|trilens|root|"
    r"localhost|system:.*"
)
_USER_KEY: Final = re.compile(r"(^|[/._-])(user|user-?name|owner|created-?by|creator|e-?mail|author)$", re.I)
_TEAM_KEY: Final = re.compile(r"(^|[/._-])(team|group|tenant|department|cost-?cent(re|er))$", re.I)
_WORD: Final = "[A-Za-z0-9]"
_LEAST: Final = 2  # letters: a name of one would be found in every line
_MISSING: Final = "trilens bundle without --mask-names has them"


def masked_names(case: CaseFile) -> CaseFile:
    masks = _masks(case)
    if not masks:
        return case
    any_name = _any_of(masks)
    pattern = re.compile(f"(?<!{_WORD})(?:{any_name})(?!{_WORD})")

    def put(text: str) -> str:
        return pattern.sub(lambda found: masks[found[0]], text)

    in_bytes = re.compile(any_name.encode())
    artifacts, left_out = [], 0
    for one in case.artifacts:
        if in_bytes.search(one.content) is None:
            artifacts.append(replace(one, name=put(one.name)))
        elif (text := _text(one.content)) is not None:
            artifacts.append(replace(one, name=put(one.name), content=put(text).encode()))
        else:  # what a pickle or an archive says of its lengths would not be true any more
            left_out += 1
    whole: CaseFile = _mapped(replace(case, artifacts=()), put)
    missing = [*whole.missing]
    if left_out:
        missing.append(
            Missing(f"{left_out} files that ranks sent, in which names cannot be masked", _MISSING)
        )
    return replace(whole, artifacts=tuple(artifacts), missing=tuple(missing))


def _any_of(names: Iterable[str]) -> str:
    """A pattern of all of them, the longest first. Names begin alike, and what they begin with is looked at
    once: of a thousand pods, one after the other would be tried at every letter of every log."""
    root: _Letters = {}
    for name in names:
        here = root
        for letter in name:
            here = here.setdefault(letter, {})
        here[""] = {}  # one ends here
    return _written(root)


def _written(letters: _Letters) -> str:
    more = [re.escape(letter) + _written(below) for letter, below in sorted(letters.items()) if letter]
    if not more:
        return ""
    if "" in letters:
        return f"(?:{'|'.join(more)})?"
    return more[0] if len(more) == 1 else f"(?:{'|'.join(more)})"


def _masks(case: CaseFile) -> dict[str, str]:
    masks: dict[str, str] = {}
    counts: dict[str, int] = {}
    for kind, name in _names(case):
        if len(name) >= _LEAST and name not in masks and not _PUBLIC.fullmatch(name):
            counts[kind] = counts.get(kind, 0) + 1
            masks[name] = f"{kind}-{counts[kind]}"
    return masks


def _names(case: CaseFile) -> Iterator[tuple[str, str]]:
    """In an order that does not change, what is worth most first: a name has the mask of its first kind."""
    subject = case.subject
    yield "cluster", subject.cluster
    yield subject.kind.value, subject.name
    for workload in case.workloads:
        yield "workload", workload.key.name
        yield "namespace", workload.key.namespace
        for kind, name in (
            ("team", workload.team),
            ("team", workload.cost_centre),
            ("queue", workload.queue),
        ):
            yield kind, name or ""
    for member in case.members:
        yield "namespace", member.membership.pod.namespace
        yield "pod", member.membership.pod.name
        yield "node", member.node
    for rank in case.ranks:
        yield "cluster", rank.cluster or ""
        yield "node", rank.node
        yield "pod", rank.pod or ""
    for seat in case.gpus:
        yield "node", seat.node
    for event in case.events:
        yield "cluster", event.cluster
        yield "node", event.node
        for victim in event.victims:
            yield "namespace", victim.namespace
            yield "pod", victim.name
    for one in case.objects:
        yield "namespace", one.namespace
        if one.kind in ("Pod", "Node"):
            yield one.kind.lower(), one.name
        for owner in one.owners:  # jobs of others: who holds what is asked for is told by their names
            if owner.kind != "Node" and not is_daemon_name(owner.name):
                yield "workload", owner.name
        for name, value in (*one.labels.items(), *one.annotations.items()):
            if _USER_KEY.search(name):
                yield "user", value
            elif _TEAM_KEY.search(name):
                yield "team", value
    for run in case.runs:
        for key, told in {**run.config, **run.tags}.items():
            if isinstance(told, str) and _USER_KEY.search(key):
                yield "user", told


def _mapped(value: Any, put: Callable[[str], str]) -> Any:
    """The same with every text replaced. Names of fields and keys stay: evidence reads by them."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return put(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _mapped(getattr(value, one.name), put) for one in fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(part, put) for part in value))
    if isinstance(value, tuple):
        # Of a series or the steps of a rank there are many, and numbers have no names in them.
        if value and isinstance(value[0], int | float):
            return value
        return tuple(_mapped(part, put) for part in value)
    if isinstance(value, list):
        return [_mapped(part, put) for part in value]
    if isinstance(value, Mapping):
        return {name: _mapped(part, put) for name, part in value.items()}
    return value


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
