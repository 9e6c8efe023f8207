"""What keeps pods from their nodes: what schedulers say, and what the nodes have."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.case import EVENTS
from trilens.diagnose.scheduling.demand import PLACES, demand_of
from trilens.diagnose.scheduling.messages import Blocker
from trilens.diagnose.scheduling.nodes import names_of, nodes_of, places_for, room_facts, why_closed
from trilens.diagnose.scheduling.waiting import (
    autoscaler_words,
    first_waiting,
    group_name,
    group_of,
    names,
    pod_key,
    scheduler_words,
    since_ms,
    without_node,
)
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import items, section, text, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.scheduling.demand import Amounts, Demand
    from trilens.diagnose.scheduling.messages import Blocked
    from trilens.diagnose.scheduling.nodes import NodeRoom
    from trilens.diagnose.scheduling.waiting import Word

_SOON_MS: Final = 120_000
_EVENTS_KEPT_MS: Final = 3_600_000
_GPU: Final = re.compile(r"insufficient \S*gpu", re.IGNORECASE)
_FEW: Final = 6  # facts of one kind that are shown

# What would help the sooner comes first. What has 0 stops the pod everywhere.
_ORDER: Final = {
    Blocker.GATED: 0,
    Blocker.VOLUME: 0,
    Blocker.CLAIM: 0,
    Blocker.QUOTA: 0,
    Blocker.INSUFFICIENT_GPU: 3,
    Blocker.VGPU_UNFIT: 3,
    Blocker.INSUFFICIENT_RESOURCE: 4,
    Blocker.TAINT: 5,
    Blocker.PODS_APART: 5,
    Blocker.PORTS: 5,
    Blocker.CORDONED: 6,
    Blocker.NODE_UNREACHABLE: 6,
    Blocker.SELECTOR: 7,
    Blocker.GANG_NOT_READY: 8,  # where a member says what it lacks, that is why the gang waits
    Blocker.CONTROL_PLANE: 9,  # never the one, unless there are no other nodes
}
_HAS_ROOM: Final = 1  # nothing but this is in the way


@evidence(*(blocker.value for blocker in _ORDER), "silent")
def scheduler_says(case: Case) -> Answer:
    """What would help comes first; what would not is told, and not followed."""
    pod = first_waiting(case)
    if pod is None:
        return Answer.unknown(Missing("a pod without a node", "ask while it is pending"))
    about = Subject(pod=pod_key(pod))
    told = {
        "pod": f"{pod.namespace}/{pod.name}",
        "pod_name": pod.name,
        "pods": names(without_node(case)),
        "scheduler": text(section(pod.body, "spec"), "schedulerName") or "default-scheduler",
    }
    gates = [text(one, "name") for one in items(section(pod.body, "spec"), "schedulingGates")]
    words = scheduler_words(case, pod)
    if gates:
        told["gates"] = ", ".join(gates)
        fact = Fact(f"schedulingGates: {told['gates']}", f"spec of Pod {pod.name}")
        return Answer(("gated",), (fact,), names=told, subject=about, since_ms=since_ms(pod))
    known = [word for word in words if word.blocked.blocker in _ORDER]
    facts = tuple(dict.fromkeys(word.fact for word in words))[:_FEW]
    if not known and (heard := [word for word in autoscaler_words(case, pod) if _GPU.search(word.fact.text)]):
        # It looks only at pods that a scheduler has given up, whose own word is forgotten by now.
        facts = tuple(word.fact for word in heard)[:_FEW]
        return Answer(("insufficient-gpu",), facts, 0.9, told, (), about, since_ms(pod))
    if not known:
        values = (UNKNOWN,) if words else ("silent",)
        missing = (
            (Missing("what the scheduler's words mean", "tell the authors of Trilens"),) if words else ()
        )
        return Answer(values, facts, names=told, missing=missing, subject=about, since_ms=since_ms(pod))
    alone = _enough_alone(nodes_of(case), demand_of(pod))
    ordered = sorted(known, key=lambda word: _place(word, alone))
    first = _place(ordered[0], alone)
    followed = [word for word in ordered if _place(word, alone) <= min(first, _HAS_ROOM)] or ordered[:1]
    told |= _names(
        [word for word in known if word.blocked.blocker in {one.blocked.blocker for one in followed}]
    )
    answers = tuple(dict.fromkeys(word.blocked.blocker.value for word in followed))
    beside = [word for word in known if word.blocked.blocker.value not in answers]
    more = _others(beside, nodes_of(case), demand_of(pod))
    return Answer(answers, (*facts, *more), names=told, subject=about, since_ms=since_ms(pod))


@evidence("scaling", "at-limit", "no-fit", "none")
def autoscaler_says(case: Case) -> Answer:
    pod = first_waiting(case)
    words = autoscaler_words(case, pod) if pod is not None else []
    for word in reversed(words):
        for blocker, value in (
            (Blocker.AUTOSCALER_SCALING, "scaling"),
            (Blocker.AUTOSCALER_AT_LIMIT, "at-limit"),
            (Blocker.AUTOSCALER_NO_FIT, "no-fit"),
        ):
            if word.blocked.blocker is blocker:
                return Answer((value,), (word.fact,), names={"autoscaler": word.fact.text})
    return Answer(("none",))


@evidence("members-missing", "no-room")
def gang_says(case: Case) -> Answer:
    """A gang starts whole or not at all: whether it is whole."""
    pod = first_waiting(case)
    if pod is None:
        return Answer.unknown()
    said = " ".join(word.fact.text for word in scheduler_words(case, pod))
    counted = re.search(r"current pods number: (\d+), minMember of group: (\d+)", said)
    group = group_of(case, pod)
    least = whole(section(group.body, "spec").get("minMember")) if group is not None else None
    if counted is not None:
        there, least = int(counted[1]), int(counted[2])
    else:
        there = sum(1 for one in case.pods if group_name(one) == group_name(pod)) or len(case.pods)
    told = {
        "there": str(there),
        "least": str(least) if least is not None else "all its",
        "needed": "room for all",
        "places": "there is no room for all of them",
    }
    told["group"] = group.name if group is not None else group_name(pod) or "not named"
    if least is None:
        missing = Missing("its PodGroup", 'allow "list" on podgroups: trilens kubernetes rbac')
        return Answer((UNKNOWN,), names=told, missing=(missing,))
    fact = Fact(f"{there} pods are there, {least} have to start together", f"PodGroup {told['group']}")
    rooms = nodes_of(case)
    facts = [fact, *room_facts(rooms, demand_of(pod))]
    needed = _times(demand_of(pod).gpus, least)
    told["needed"] = ", ".join(f"{amount:f} {name}" for name, amount in needed.items()) or "room for all"
    if there < least:
        return Answer(("members-missing",), tuple(facts), names=told)
    places = places_for(rooms, demand_of(pod))
    if places is not None:
        facts.append(Fact(f"there are places for {places} of its pods", "Nodes and their pods"))
        told["places"] = f"there are places for {places} of them"
    has_room = places is not None and places >= least  # then something else keeps it, which nobody told
    return Answer(("no-room",), tuple(facts), 0.5 if has_room else 1.0, told)


@evidence("absent", "slow")
def scheduler_runs(case: Case) -> Answer:
    """Of a pod that no scheduler has a word for: whether the one that it names is there."""
    pod = first_waiting(case)
    if pod is None:
        return Answer.unknown()
    named = text(section(pod.body, "spec"), "schedulerName") or "default-scheduler"
    told = {"scheduler": named, "minutes": str(max(0, case.now_ms - since_ms(pod)) // 60_000)}
    fact = Fact(f"it waits for {told['minutes']} min, and no scheduler has said a word", "events of the pod")
    # Events are kept for an hour: one that was said before that cannot be seen any more.
    is_fresh = _SOON_MS <= case.now_ms - since_ms(pod) <= _EVENTS_KEPT_MS
    if named != "default-scheduler" and is_fresh:
        has_events = any(case.objects.get(kind) for kind in EVENTS)
        return Answer(("absent",), (fact,), 1.0 if has_events else 0.7, told)
    return Answer(("slow",), (fact,), names=told)


def _place(word: Word, alone: frozenset[Blocker]) -> int:
    blocker = word.blocked.blocker
    if word.blocked.nodes is not None and _ORDER[blocker] == 0:
        return 3  # of some nodes only
    return _HAS_ROOM if blocker in alone else _ORDER[blocker]


def _enough_alone(rooms: Sequence[NodeRoom], demand: Demand) -> frozenset[Blocker]:
    """What is the only thing between the pod and some node that has the GPUs."""
    found = set()
    for room in rooms:
        if room.is_control_plane or not room.is_wanted(demand):
            continue
        if not demand.gpus or not room.has_room(demand):
            continue
        ways = {
            Blocker.TAINT: bool(room.untolerated(demand)),
            Blocker.CORDONED: room.is_cordoned,
            Blocker.NODE_UNREACHABLE: not room.is_well,
            Blocker.INSUFFICIENT_RESOURCE: _lacks_other(room, demand),
        }
        in_the_way = [one for one, is_so in ways.items() if is_so]
        if len(in_the_way) == 1:
            found.add(in_the_way[0])
    return frozenset(found)


def _lacks_other(room: NodeRoom, demand: Demand) -> bool:
    others = {
        name: amount
        for name, amount in demand.resources.items()
        if name not in demand.gpus and (name != PLACES or name in room.allocatable)
    }
    return any((room.free(name) or Decimal(0)) < amount for name, amount in others.items())


def _names(words: Sequence[Word]) -> dict[str, str]:
    return {"said": "; ".join(dict.fromkeys(_counted(word.blocked) for word in words))}


def _others(words: Sequence[Word], rooms: Sequence[NodeRoom], demand: Demand) -> Iterator[Fact]:
    """What else was said, and why it is not what is told to do."""
    unwanted = [room for room in rooms if not room.is_wanted(demand) and not why_closed(room, demand)]
    spare = [room for room in unwanted if demand.gpus and room.has_room(demand)]
    why = {
        Blocker.CONTROL_PLANE: "those nodes are Kubernetes' own, and not meant for it",
        Blocker.SELECTOR: f"it does not want those nodes, and there is room on {names_of(spare)}"
        if spare
        else "it does not want those nodes, and others are in question",
        Blocker.INSUFFICIENT_GPU: "there it waits until others give theirs back",
        Blocker.GANG_NOT_READY: "its group waits for what its members lack",
    }
    for word in words[:_FEW]:
        blocked = word.blocked
        reason = why.get(blocked.blocker, "that alone would not help")
        yield Fact(f"{_counted(blocked)}: {reason}", f"the same {word.fact.source.partition(',')[0]}")


def _counted(blocked: Blocked) -> str:
    if blocked.nodes is None:
        return blocked.text
    return f"{blocked.nodes} {'node' if blocked.nodes == 1 else 'nodes'}: {blocked.text}"


def _times(amounts: Amounts, count: int) -> Amounts:
    return {name: amount * count for name, amount in amounts.items()}
