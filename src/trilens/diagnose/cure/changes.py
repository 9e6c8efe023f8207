"""What each deed changes in an object: the patch, what was there before, and how it is taken back. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.cure.change import FIX, MARKS, Change, Json, section
from trilens.diagnose.cure.restarts import restart
from trilens.model.errors import RequestError
from trilens.model.fix import NODE_DEEDS, POD_DEEDS, Deed

if TYPE_CHECKING:
    from trilens.model.fix import Fix, FixTarget

# On a node that Trilens has cordoned: a label, so that they are found and counted, also by kubectl.
CORDONED: Final = f"{MARKS}cordoned"
_WHY: Final = f"{MARKS}why"
# Of a cordon that must not stay: all of it.
TAKEN_BACK: Final[Json] = {
    "spec": {"unschedulable": None},
    "metadata": {"labels": {CORDONED: None}, "annotations": {FIX: None, _WHY: None}},
}


def check_target(deed: Deed, target: FixTarget) -> None:
    """Raises RequestError where that cannot be done to such a thing."""
    core = target.group == ""
    if deed in NODE_DEEDS and not (core and target.kind == "Node"):
        raise RequestError(f"only a node can be {deed}ed, and {target} is none")
    if deed in POD_DEEDS and not (core and target.kind == "Pod"):
        raise RequestError(f"{deed} is for a pod, and {target} is none", hint="write pod/NAME")
    if deed is Deed.RESTART and core and target.kind == "Node":
        raise RequestError("a node is not restarted from here", hint="cordon it, and reboot it by hand")


def change_of(fix: Fix, now: Json) -> Change:
    """`now` is the object as it is. Raises RequestError where it cannot be done."""
    if fix.deed is Deed.CORDON:
        return _cordon(fix, now)
    if fix.deed is Deed.UNCORDON:
        return _uncordon(fix, now)
    if fix.deed in POD_DEEDS:
        metadata, status = section(now, "metadata"), section(now, "status")
        node = section(now, "spec").get("nodeName")
        return Change(None, {"uid": metadata.get("uid"), "node": node, "phase": status.get("phase")}, {})
    if fix.deed is Deed.ANNOTATE:
        return _annotate(fix, now)
    return restart(fix, now)


def is_done(fix: Fix, now: Json | None) -> bool:
    """Whether it is as the deed leaves it; `now` is None where it is gone."""
    if fix.deed in POD_DEEDS:
        return now is None or section(now, "metadata").get("uid") != fix.before.get("uid")
    if now is None:
        return False
    if fix.deed is Deed.ANNOTATE:
        return _annotate(fix, now).done_already
    noted = section(section(now, "metadata"), "annotations").get(FIX) == fix.id
    if fix.deed in NODE_DEEDS:
        return noted and _is_closed(now) == (fix.deed is Deed.CORDON)
    return noted


def left_by(fix: Fix) -> Json:
    """What is there when it is done, of what can be said without looking."""
    if fix.deed in NODE_DEEDS:
        return {"unschedulable": fix.deed is Deed.CORDON}
    if fix.deed is Deed.ANNOTATE:
        return {name: value or None for name, value in fix.value.items()}
    return {"evicted": True} if fix.deed is Deed.EVICT else {"deleted": True} if fix.deed in POD_DEEDS else {}


def undo_deed(fix: Fix) -> tuple[Deed, Json] | None:
    """What takes it back; None where nothing does."""
    if fix.deed is Deed.CORDON and not fix.before.get("unschedulable"):
        return Deed.UNCORDON, {}
    if fix.deed is Deed.UNCORDON and fix.before.get("unschedulable"):
        return Deed.CORDON, {}
    if fix.deed is Deed.ANNOTATE:
        return Deed.ANNOTATE, {name: value or "" for name, value in fix.before.items()}
    return None


def _cordon(fix: Fix, now: Json) -> Change:
    marks: Json = {"labels": {CORDONED: "true"}, "annotations": {FIX: fix.id, _WHY: fix.why[:1000]}}
    patch = {"spec": {"unschedulable": True}, "metadata": {**marks, **_as_read(now)}}
    closed = _is_closed(now)
    return Change(patch, {"unschedulable": closed}, left_by(fix), done_already=closed)


def _uncordon(fix: Fix, now: Json) -> Change:
    closed = _is_closed(now)
    if closed and CORDONED not in section(section(now, "metadata"), "labels"):
        raise RequestError(
            f"{fix.target} was not cordoned by Trilens: whoever did has a reason",
            hint=f"kubectl uncordon {fix.target.name}",
        )
    marks: Json = {"labels": {CORDONED: None}, "annotations": {FIX: fix.id, _WHY: None}}
    patch = {"spec": {"unschedulable": None}, "metadata": {**marks, **_as_read(now)}}
    return Change(patch, {"unschedulable": closed}, left_by(fix), done_already=not closed)


def _annotate(fix: Fix, now: Json) -> Change:
    if own := [name for name in fix.value if name.startswith(MARKS)]:
        raise RequestError(f"{', '.join(own)}: what begins with {MARKS} is noted by Trilens itself")
    had = section(section(now, "metadata"), "annotations")
    before = {name: had.get(name) for name in fix.value}
    wanted = left_by(fix)
    patch = {"metadata": {"annotations": wanted, **_as_read(now)}}
    return Change(patch, before, wanted, done_already=before == wanted)


def _as_read(now: Json) -> Json:
    """Refused (409) where somebody has changed it since: what `before` says is what was there."""
    version = section(now, "metadata").get("resourceVersion")
    return {"resourceVersion": version} if version else {}


def _is_closed(now: Json) -> bool:
    return bool(section(now, "spec").get("unschedulable"))
