"""Who a workload belongs to: ordered rules over labels, annotations, namespace and queue."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, field_validator

from trilens.settings.group import Group, Texts

SOURCES = ("label", "annotation", "namespace-label", "namespace-annotation", "value")
WITHOUT_KEY = ("namespace", "queue")


class Rule(NamedTuple):
    """`label:team`, `namespace =~ team-(.+)`: where to look, and which part of what is found there."""

    source: str
    key: str
    pattern: re.Pattern[str] | None

    def part(self, found: str) -> str | None:
        """What the rule makes of a text it found; None where the pattern does not fit or nothing is left."""
        if self.pattern is not None:
            fits = self.pattern.fullmatch(found)
            if fits is None:
                return None
            found = fits.group(1) or "" if self.pattern.groups else fits.group(0)
        return found or None


def parse_rule(written: str) -> Rule:
    place, with_pattern, pattern = (part.strip() for part in written.partition("=~"))
    source, with_key, key = (part.strip() for part in place.partition(":"))
    if source in WITHOUT_KEY and not with_key:
        pass
    elif source not in SOURCES or not key:
        known = ", ".join([f"{source}:KEY" for source in SOURCES] + list(WITHOUT_KEY))
        raise ValueError(f"{written!r} is no rule; a rule is one of {known}, and may end in =~ PATTERN")
    if not with_pattern:
        return Rule(source, key, None)
    try:
        return Rule(source, key, re.compile(pattern))
    except re.error as e:
        raise ValueError(f"{written!r}: the pattern cannot be read: {e}") from e


def _check_rules(written: tuple[str, ...]) -> tuple[str, ...]:
    for rule in written:
        parse_rule(rule)
    return written


Rules = Annotated[Texts, AfterValidator(_check_rules)]


class OwnershipSettings(Group):
    """Of each list the first rule that finds something wins. `label:KEY` and `annotation:KEY` look on the
    workload's own object, then on what it owns, down to its pods; `namespace-label:KEY` and
    `namespace-annotation:KEY` on its namespace; `namespace` and `queue` are their names; `value:TEXT` is that
    text. `=~ PATTERN` takes a part: `namespace =~ team-(.+)`.
    """

    team: Rules = Field(
        default=(
            "label:team",
            "annotation:team",
            "namespace-label:team",
            "namespace-annotation:team",
            "label:determined.ai/workspace",
            "label:project",
            "namespace",
        ),
        description="Rules for the team.",
    )
    cost_centre: Rules = Field(
        default=(
            "label:cost-center",
            "label:cost-centre",
            "annotation:cost-center",
            "annotation:cost-centre",
            "namespace-label:cost-center",
            "namespace-label:cost-centre",
            "namespace-annotation:cost-center",
            "namespace-annotation:cost-centre",
        ),
        description="Rules for the cost centre.",
    )
    experiment: Rules = Field(
        default=(
            "label:experiment",
            "annotation:experiment",
            "label:katib.kubeflow.org/experiment",
            "label:determined.ai/experiment_id",
            "annotation:pipelines.kubeflow.org/run_name",
        ),
        description="Rules for the experiment.",
    )
    queue: Rules = Field(
        default=(
            "label:kueue.x-k8s.io/queue-name",
            "annotation:kueue.x-k8s.io/queue-name",
            "label:kai.scheduler/queue",
            "label:runai/queue",
            "label:volcano.sh/queue-name",
            "annotation:volcano.sh/queue-name",
            "annotation:scheduling.volcano.sh/queue-name",
            "label:determined.ai/resource_pool",
        ),
        description="Rules for the queue; `queue` cannot be one of them.",
    )
    system_namespaces: Texts = Field(
        default=(
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "openshift-*",
            "gpu-operator",
            "nvidia-*",
            "network-operator",
            "kueue-system",
            "volcano-system",
            "jobset-system",
            "lws-system",
            "kuberay-system",
            "kubeflow-system",
            "kai-scheduler",
            "runai",
            "runai-backend",
            "knative-serving",
            "istio-system",
            "cert-manager",
        ),
        description="Namespaces (`*` is anything) whose pods are no workloads unless they ask for a GPU.",
    )

    @field_validator("queue")
    @classmethod
    def _not_by_itself(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for written in rules:
            if parse_rule(written).source == "queue":
                raise ValueError("the queue cannot be found by a rule that asks for the queue")
        return rules
