"""Team, cost centre, experiment and queue, by rules; and where nodes stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from small_jobs import make, make_pod

from kube_objects import KeptIntervals, MadeObjects, resolved, resolver
from trilens.resolve.resolver import ClusterResolver
from trilens.resolve.topology import Place
from trilens.settings.ownership import OwnershipSettings, parse_rule
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from trilens.model.workload import Workload


def record(made: MadeObjects, **rules: tuple[str, ...]) -> Workload:
    found: ClusterResolver = resolver(**rules)
    resolved(made.objects(), found)
    (only,) = found.workloads().values()
    return only


def two_levels() -> MadeObjects:
    made = MadeObjects()
    make(
        made,
        "v1",
        "Namespace",
        "team-vision",
        meta={"labels": {"cost-center": "cc-9", "team": "vision"}, "namespace": ""},
    )
    space = {"namespace": "team-vision"}
    job = make(made, "batch/v1", "Job", "j", spec={}, meta={"labels": {"experiment": "lr-sweep"}, **space})
    make_pod(
        made,
        "j-x",
        job,
        {"experiment": "pods-own", "kueue.x-k8s.io/queue-name": "gold"},
        namespace="team-vision",
    )
    return made


def test_defaults() -> None:
    found = record(two_levels())
    assert (found.team, found.cost_centre, found.experiment, found.queue) == (
        "vision",
        "cc-9",
        "lr-sweep",
        "gold",
    )


def test_the_first_rule_that_finds_something_wins() -> None:
    assert record(two_levels(), team=("label:absent", "label:experiment", "namespace")).team == "lr-sweep"


def test_a_pattern_takes_a_part_and_passes_on_where_it_does_not_fit() -> None:
    rules = ("label:experiment =~ (team-.*)", "namespace =~ team-(.+)")
    assert record(two_levels(), team=rules).team == "vision"


def test_the_queue_can_tell_the_team() -> None:
    assert record(two_levels(), team=("queue",)).team == "gold"


def test_a_constant_comes_last() -> None:
    assert record(two_levels(), cost_centre=("label:nobody", "value:shared")).cost_centre == "shared"


def test_nothing_found_is_unknown_not_empty() -> None:
    made = MadeObjects()
    make_pod(made, "alone", labels={"experiment": ""})
    found = record(made)
    assert (found.team, found.cost_centre, found.experiment, found.queue) == ("default", None, None, None)


def test_pods_that_disagree_are_asked_in_the_order_of_their_names() -> None:
    made = MadeObjects()
    job = make(made, "batch/v1", "Job", "j", spec={"parallelism": 2})
    for name, team in (("j-b", "b"), ("j-a", "a")):
        make_pod(made, name, job, {"team": team})
    assert record(made).team == "a"


def test_a_namespace_label_that_changes_changes_the_team() -> None:
    made = two_levels()
    found = resolver()
    resolved(made.objects(), found)
    made.manifests[0]["metadata"]["labels"] = {"team": "speech"}
    resolved(made.objects()[:1], found)
    assert [one.team for one in found.workloads().values()] == ["speech"]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("labels:team", "'labels:team' is no rule"),
        ("label:", "is no rule"),
        ("team", "is no rule"),
        ("namespace:x", "is no rule"),
        ("label:team =~ (", "the pattern cannot be read"),
    ],
)
def test_a_rule_that_cannot_be_read(written: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint.replace("(", r"\(")):
        OwnershipSettings(team=(written,))


def test_the_queue_cannot_be_found_by_itself() -> None:
    with pytest.raises(ValidationError, match="cannot be found by a rule that asks for the queue"):
        OwnershipSettings(queue=("queue",))


def test_every_default_rule_can_be_read() -> None:
    defaults = OwnershipSettings()
    for rules in (defaults.team, defaults.cost_centre, defaults.experiment, defaults.queue):
        assert [parse_rule(rule).source for rule in rules]


def test_where_a_node_stands() -> None:
    made = MadeObjects()
    labels = {
        "topology.kubernetes.io/zone": "eu-1a",
        "failure-domain.beta.kubernetes.io/zone": "old",
        "network.topology.nvidia.com/leaf": "leaf-3",
        "nvidia.com/gpu.clique": "0f1e.1",
    }
    make(made, "v1", "Node", "n1", meta={"labels": labels, "namespace": ""})
    found = resolver()
    resolved(made.objects(), found)
    assert found.place_of("n1") == Place("eu-1a", None, "leaf-3", "0f1e.1")
    assert found.place_of("n2") is None


def test_labels_for_a_place_can_be_named() -> None:
    made = MadeObjects()
    make(made, "v1", "Node", "n1", meta={"labels": {"acme/rack": "r7"}, "namespace": ""})
    found = ClusterResolver(
        "test", OwnershipSettings(), TopologySettings(rack=("acme/rack",)), KeptIntervals()
    )
    found.changed(made.objects()[0])
    place = found.place_of("n1")
    assert place is not None
    assert place.rack == "r7"
