"""Whether ranks were told to tell: names of their environment, as values are no part of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

# By the old name, what PyTorch calls it now.
_RENAMED: Final = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}
_NEEDED: Final = ("NCCL_DEBUG", "TORCH_FR_BUFFER_SIZE")


@evidence("missing", "old-names", "set")
def debug_environment(case: Case) -> Answer:
    """`old-names`: all that is needed is there, some of it under a name that PyTorch has given up."""
    pods = [pod for pod in case.pods if any(True for _ in _containers(pod))]
    if not pods:
        return Answer.unknown(Missing("the environment of its containers", 'allow "get" on pods'))
    names = {name for pod in pods for name in _names(pod)}
    old = sorted(name for name in names if name in _RENAMED and _RENAMED[name] not in names)
    known = names | {_RENAMED[name] for name in old}
    lacking = [name for name in _NEEDED if name not in known]
    source = f"env of {len(pods)} pods"
    facts = (
        Fact(f"{', '.join(lacking) or 'nothing'} is not set", source),
        *(Fact(f"{name} is the old name of {_RENAMED[name]}", source) for name in old),
    )
    told = {
        "lacking": ", ".join(lacking),
        "old_names": ", ".join(old),
        "new_names": ", ".join(_RENAMED[name] for name in old),
    }
    if lacking and any(_is_hidden(pod) for pod in pods):
        what = f"whether {told['lacking']} is in a ConfigMap or Secret of its environment"
        return Answer(("unknown",), facts, missing=(Missing(what, "set it in the container's own env"),))
    if lacking:
        missing = tuple(Missing(name, f"add {name} to the env of its containers") for name in lacking)
        return Answer(("missing",), facts, names=told, missing=missing)
    return Answer(("old-names" if old else "set",), facts, names=told)


def _containers(pod: KubeObject) -> Iterator[dict[str, object]]:
    for one in items(section(pod.body, "spec"), "containers"):
        yield dict(one)


def _names(pod: KubeObject) -> Iterator[str]:
    for container in _containers(pod):
        for one in items(container, "env"):
            yield text(one, "name")


def _is_hidden(pod: KubeObject) -> bool:
    return any(True for container in _containers(pod) for _ in items(container, "envFrom"))
