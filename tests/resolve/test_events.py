"""Events are kept as long as what they are about, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from small_jobs import make, make_pod
from story import Story, event, now

from kube_objects import MadeObjects, at, at_ms, to_object
from trilens.model.kubernetes import GroupKind
from trilens.resolve.clusters import Clusters
from trilens.resolve.events import MOST_REASONS, MOST_STRANGERS, EventLog, Noted, about_whom
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject


def _event(about: str, reason: str, seconds: float, message: str = "") -> KubeObject:
    made = MadeObjects()
    return to_object(
        make(
            made,
            "v1",
            "Event",
            "e",
            involvedObject={"uid": about},
            reason=reason,
            message=message,
            lastTimestamp=at(seconds),
        )
    )


def test_the_latest_of_each_reason_stays() -> None:
    log = EventLog()
    for seconds in (5, 9, 7):
        log.note("p", _event("p", "Pulling", seconds, f"at {seconds}"), is_known=True)
    assert log.about("p") == {"Pulling": Noted(at_ms(9), "at 9")}


def test_the_newer_api_says_the_same_in_other_words() -> None:
    made = MadeObjects()
    written = make(
        made,
        "events.k8s.io/v1",
        "Event",
        "e",
        regarding={"uid": "p"},
        reason="Preempted",
        note="by another",
        eventTime=at(1),
        series={"lastObservedTime": at(4)},
    )
    log = EventLog()
    log.note(about_whom(to_object(written)).uid, to_object(written), is_known=True)
    assert log.about("p") == {"Preempted": Noted(at_ms(4), "by another")}


def test_events_about_strangers_do_not_pile_up() -> None:
    log = EventLog()
    for number in range(MOST_STRANGERS + 5):
        log.note(f"s{number}", _event(f"s{number}", "Killing", 1), is_known=False)
    assert log.about("s0") == {}
    assert log.about(f"s{MOST_STRANGERS}") != {}
    for number in range(MOST_REASONS + 5):
        log.note("p", _event("p", f"Reason{number}", number), is_known=True)
    assert len(log.about("p")) == MOST_REASONS
    assert "Reason0" not in log.about("p")


def test_an_event_may_come_before_its_pod() -> None:
    story = Story()
    own = make_pod(story.made, "alone")
    story.resolver.changed(to_object(event(story, own, "FailedScheduling", 2, "no fit")))
    assert now(story.at(3, own)) == ("scheduling", "no fit")


def test_each_cluster_has_its_own_workloads() -> None:
    story = Story()
    clusters = Clusters(OwnershipSettings(), TopologySettings(), story.sink)
    manifest = make_pod(story.made, "alone")
    for name in ("east", "west"):
        clusters.synced(name, GroupKind("", "Pod"))
        clusters.changed(to_object(manifest, name))
    assert len(clusters.settle(at_ms(1))) == 2
    clusters.removed(to_object(manifest, "east"))
    clusters.settle(at_ms(2))
    assert [list(one.workloads()) != [] for one in clusters] == [False, True]
