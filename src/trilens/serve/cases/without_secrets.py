"""A case file as it may be handed on: no secrets, and of environment variables only the names.

Everything goes through here last, wherever it came from: what is not let through by this file is not in a
bundle, and no verdict rests on it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trilens.collect.node.redaction import Redaction
from trilens.diagnose.case_file import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.case_file import CaseFile
    from trilens.model.kubernetes import KubeObject

# Of an environment variable these say only that there is none, and some causes are just that.
_SAYS_NONE: Final = frozenset({"", "-1", "none", "void", "NoDevFiles"})
_TEXTS: Final = ("stacks", "preflight")  # kinds of artifacts that are read as text
_SECRET_KEY: Final = re.compile(
    r"passw(or)?d|passphrase|secret(?!Name$|Ref$|KeyRef$)|api_?-?key|access_?-?key|private_?-?key|credential|"
    r"(^|[/_.-])token$|auth_?-?token|bearer",
    re.IGNORECASE,
)
_SECRET_FLAG: Final = re.compile(
    r"--?[\w.-]*(passw(or)?d|passphrase|secret|[_-]key|apikey|token|credential)s?", re.IGNORECASE
)
# What nobody writes by hand and nobody reads: a key, in letters and digits without a word in it.
_KEY_SHAPED: Final = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9+_=-]{32,}")
_UUID: Final = re.compile(r"(GPU-|MIG-)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
_COMMANDS: Final = ("command", "args")
_GONE: Final = ("imagePullSecrets", "managedFields")
_LAST_APPLIED: Final = "last-applied"

_redacted: Final = Redaction()


def without_secrets(case: CaseFile) -> CaseFile:
    return replace(
        case,
        objects=tuple(map(_object, case.objects)),
        runs=tuple(replace(one, config=_tree(one.config), tags=_texts(one.tags)) for one in case.runs),
        ranks=tuple(
            replace(one, error=_redacted(one.error)) if one.error is not None else one for one in case.ranks
        ),
        notes=tuple(replace(one, text=_redacted(one.text), data=_tree(one.data)) for one in case.notes),
        artifacts=tuple(
            replace(one, content=_redacted(one.content.decode("utf-8", "replace")).encode())
            if one.kind in _TEXTS
            else one
            for one in case.artifacts
        ),
        logs=tuple(replace(one, lines=tuple(map(_redacted, one.lines))) for one in case.logs),
        targets=tuple(
            replace(one, labels=_texts(one.labels), error=_redacted(one.error)) for one in case.targets
        ),
        probes=tuple(replace(one, output=_redacted(one.output)) for one in case.probes),
    )


def _object(one: KubeObject) -> KubeObject:
    annotations = {name: value for name, value in one.annotations.items() if _LAST_APPLIED not in name}
    return replace(one, annotations=_texts(annotations), body=_tree(one.body))


def _texts(told: Mapping[str, str]) -> dict[str, str]:
    return {
        name: LEFT_OUT if value and _SECRET_KEY.search(name) else _redacted(value)
        for name, value in told.items()
    }


def _tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _under(name, part) for name, part in value.items() if name not in _GONE}
    if isinstance(value, list | tuple):
        return [_tree(part) for part in value]
    return _redacted(value) if isinstance(value, str) else value


def _under(name: str, value: Any) -> Any:
    if name == "env" and isinstance(value, list):
        return [_variable(one) for one in value if isinstance(one, dict)]
    if name in _COMMANDS and isinstance(value, list):
        return _command(value)
    if _SECRET_KEY.search(str(name)) and isinstance(value, str) and value:
        return LEFT_OUT
    return _tree(value)


def _variable(told: dict[str, Any]) -> dict[str, Any]:
    """Its name; where its value comes from, if that is a field of the pod; and that it is empty, if it is."""
    kept = {"name": told.get("name", "")}
    source = told.get("valueFrom")
    if isinstance(source, dict):
        is_field = "fieldRef" in source or "resourceFieldRef" in source
        return {**kept, "valueFrom": source} if is_field else {**kept, "value": LEFT_OUT}
    value = str(told.get("value") or "")
    return {**kept, "value": value if value in _SAYS_NONE else LEFT_OUT}


def _command(words: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    before = ""
    for word in words:
        if not isinstance(word, str):
            found.append(word)
            continue
        is_value = _SECRET_FLAG.fullmatch(before) is not None and not word.startswith("-")
        found.append(LEFT_OUT if is_value else _KEY_SHAPED.sub(_unless_uuid, _redacted(word)))
        before = word
    return found


def _unless_uuid(found: re.Match[str]) -> str:
    return found[0] if _UUID.fullmatch(found[0]) else LEFT_OUT
