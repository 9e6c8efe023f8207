"""Volumes and devices that a pod claims, and does not get."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.scheduling.waiting import first_waiting, scheduler_words
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from trilens.diagnose.case import Case

_FEW: Final = 6  # facts of one kind that are shown


@evidence("no-claim", "no-class", "elsewhere", "unbound")
def volume_says(case: Case) -> Answer:
    pod = first_waiting(case)
    if pod is None:
        return Answer.unknown()
    spec = section(pod.body, "spec")
    wanted = [text(section(one, "persistentVolumeClaim"), "claimName") for one in items(spec, "volumes")]
    wanted = [name for name in wanted if name]
    claims = {
        one.name: one
        for one in case.of_kind("", "PersistentVolumeClaim")
        if one.namespace == pod.namespace and one.name in wanted
    }
    said = " ".join(word.fact.text for word in scheduler_words(case, pod))
    if (absent := re.search(r'persistentvolumeclaim "([^"]+)" not found', said)) is not None:
        return Answer(("no-claim",), names={"claim": absent[1]})
    if re.search(r"volume node affinity conflict|volume zone|max volume count", said):
        return Answer(("elsewhere",), names={"claim": ", ".join(wanted)})
    for name, claim in claims.items():
        if text(section(claim.body, "status"), "phase") == "Bound":
            continue
        storage = text(section(claim.body, "spec"), "storageClassName")
        told = {"claim": name, "class": storage or "the default one"}
        happened = [one.body for one in case.events_about(claim)]
        words = [text(body, "message") or text(body, "note") for body in happened]
        facts = tuple(Fact(one, f"event of PersistentVolumeClaim {name}") for one in words[-_FEW:])
        phase = Fact(
            f"{name} is {text(section(claim.body, 'status'), 'phase')}, class {told['class']}", "its claim"
        )
        is_absent = any(re.search(r"storageclass\S* .*not found|no storage class", one) for one in words)
        return Answer(("no-class" if is_absent else "unbound",), (phase, *facts), names=told)
    missing = Missing(
        "its PersistentVolumeClaims", 'allow "list" on persistentvolumeclaims: trilens kubernetes rbac'
    )
    return Answer(
        (UNKNOWN,), names={"claim": ", ".join(wanted) or "its claim", "class": "?"}, missing=(missing,)
    )


@evidence("absent", "taken")
def claim_says(case: Case) -> Answer:
    """Dynamic resource allocation: whether its claims are there, and what they want."""
    pod = first_waiting(case)
    if pod is None:
        return Answer.unknown()
    said = " ".join(word.fact.text for word in scheduler_words(case, pod))
    listed = list(items(section(pod.body, "spec"), "resourceClaims"))
    named = {text(one, "name"): text(one, "resourceClaimName") for one in listed}
    for one in items(section(pod.body, "status"), "resourceClaimStatuses"):
        named[text(one, "name")] = text(one, "resourceClaimName")
    claims = [
        one
        for one in case.of_kind("resource.k8s.io", "ResourceClaim")
        if one.namespace == pod.namespace and one.name in named.values()
    ]
    told = {"claim": ", ".join(value or key for key, value in named.items()) or "its claim"}
    wants = [
        text(section(request, "exactly"), "deviceClassName") or text(request, "deviceClassName")
        for claim in claims
        for request in items(section(claim.body, "spec", "devices"), "requests")
    ]
    told["devices"] = ", ".join(sorted({one for one in wants if one})) or "devices"
    if re.search(
        r"resourceclaim\S* .*(?:not found|not created|does not exist)|device ?class\S* .*not found", said
    ):
        return Answer(("absent",), names=told)
    waiting = [one for one in claims if not section(one.body, "status", "allocation")]
    facts = tuple(
        Fact(f"{one.name} has no devices yet", f"ResourceClaim {one.name}") for one in waiting[:_FEW]
    )
    if not claims:
        missing = Missing("its ResourceClaims", 'allow "list" on resourceclaims: trilens kubernetes rbac')
        return Answer((UNKNOWN,), names=told, missing=(missing,))
    return Answer(("taken",), facts, names=told)
