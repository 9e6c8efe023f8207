"""What is told of objects, by what was known of them before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watching import RecordingSink

from kube_objects import to_object
from trilens.collect.kubernetes.known_objects import KnownObjects

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject

POD = to_object(
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "train", "uid": "u-a"}}
)
OTHER = replace(POD, name="b", uid="u-b")


async def test_another_version_goes_on_with_what_was_known() -> None:
    sink = RecordingSink()
    older, newer = (KnownObjects(sink, remembered=True) for _ in range(2))
    for obj in (POD, OTHER):
        older.take(obj)
    newer.inherit(older)
    kept = newer.take(replace(POD, version="v2"))
    newer.keep_only({kept})
    assert sink.history("Pod", "a") == [("changed", "a"), ("changed", "a")]
    assert sink.history("Pod", "b") == [("changed", "b"), ("removed", "b")]
    assert sink.get("Pod", "a").version == "v2"


async def test_what_goes_is_told_as_it_was_at_its_end() -> None:
    sink = RecordingSink()
    known = KnownObjects(sink, remembered=True)
    known.take(POD)
    last = replace(POD, resource_version="2", deleted_ms=1)
    removed: list[KubeObject] = []
    sink.removed = removed.append  # type: ignore[method-assign]
    known.remove(last)
    known.remove(last)
    assert removed == [last]

    known.take(POD)
    known.remove(replace(last, uid="somebody else"))
    assert removed == [last, POD]
