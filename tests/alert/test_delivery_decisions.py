"""Who is told what, and when: over a queue on disk, with a clock that the test sets."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from receivers_at_work import NOW_MS, alert, incident, plan, resolved, symptom
from servers import until
from small_disk import enlarge, small_disk
from trilens.alert.delivery.delivery import Delivery
from trilens.alert.delivery.notice import decode
from trilens.alert.delivery.outbox import Outbox, Waiting
from trilens.alert.delivery.silences import Silences
from trilens.model.errors import ConfigError, NotFound, RequestError
from trilens.model.finding import Severity

if TYPE_CHECKING:
    from trilens.alert.delivery.notice import Notice

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
HOOK = {"webhook": {"url": "http://127.0.0.1:9/"}}
ONE = {"receivers": {"ops": HOOK}}


@dataclass
class Desk:
    """A delivery whose messages a test takes away as a sender would."""

    file: Path
    alerting: dict[str, Any]
    now_ms: int = NOW_MS

    def __post_init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.open()

    def open(self) -> None:
        self.plan = plan(self.alerting)
        self.outbox = Outbox(self.file)
        self.silences = Silences(self.outbox)
        self.delivery = Delivery(
            self.plan,
            self.outbox,
            self.silences,
            now_ms=lambda: self.now_ms,
            on_told=lambda incident, receiver, _at_ms: self.told.append((incident, receiver)),
        )

    def restart(self) -> None:
        self.outbox.close()
        self.open()

    def after(self, ms: int, *, is_refused: bool = False) -> list[str]:
        """What is sent when so much time has gone by: `ops opened i1`."""
        return [
            f"{outlet} {notice.occasion} {notice.incident}" for outlet, notice in self.send(ms, is_refused)
        ]

    def send(self, ms: int, is_refused: bool = False) -> list[tuple[str, Notice]]:
        self.now_ms += ms
        self.delivery.look()
        sent = []
        for outlet in self.plan.outlets:
            messages = self.outbox.due(outlet.name, self.now_ms, 100)
            sent += [(outlet.name, decode(message.body)) for message in messages]
            self.delivery.settle(outlet, messages, is_refused=is_refused)
        return sent

    def silence(self, *matchers: str, ms: int = HOUR) -> str:
        made = self.silences.add(matchers, self.now_ms, self.now_ms + ms, "me", "why", self.now_ms)
        return made.id


@pytest.fixture
def make_desk(tmp_path: Path) -> Any:
    return lambda alerting=ONE: Desk(tmp_path / "queue.sqlite", alerting)


def test_one_incident_over_its_life(make_desk: Any) -> None:
    desk = make_desk()
    first = incident()
    desk.delivery.take([first])
    assert desk.after(9 * SECOND) == []  # more of it may come
    more = incident("i1", symptom(), symptom("SlowJob"))
    desk.delivery.take([more])
    assert desk.after(1 * SECOND) == ["ops opened i1"]
    assert desk.told == [("i1", "ops")]
    assert desk.after(HOUR) == []
    third = incident("i1", symptom(), symptom("SlowJob"), symptom("SloBurn"))
    desk.delivery.take([third])
    assert desk.after(0) == ["ops changed i1"]
    desk.delivery.take([incident("i1", symptom("NodeDown"), *third.symptoms)])
    assert desk.after(59 * SECOND) == []  # not two messages within group_interval
    ((_, notice),) = desk.send(1 * SECOND)
    assert (notice.occasion, notice.root.name) == ("changed", "NodeDown")
    over = replace(third.symptoms[2], ended_ms=NOW_MS)
    last = incident("i1", symptom("NodeDown"), *third.symptoms[:2], over)
    desk.delivery.take([last])
    assert desk.after(HOUR) == []  # that one of them is over is no news
    assert desk.after(3 * HOUR) == ["ops repeated i1"]
    desk.delivery.take([replace(last, severity=Severity.CRITICAL)])
    assert desk.after(0) == ["ops changed i1"]  # at once
    desk.delivery.take([resolved(last)])
    assert desk.after(0) == ["ops resolved i1"]
    desk.delivery.take([resolved(last)])
    assert desk.after(9 * HOUR) == []
    desk.delivery.take([last])
    assert desk.after(10 * SECOND) == ["ops opened i1"]  # again


def test_an_acknowledged_incident_is_not_repeated(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.after(10 * SECOND)
    desk.delivery.take([incident(acknowledged_ms=desk.now_ms, acknowledged_by="ada")])
    ((_, notice),) = desk.send(0)
    assert (notice.occasion, notice.acknowledged_by) == ("acknowledged", "ada")
    assert desk.after(9 * HOUR) == []


def test_routes(make_desk: Any) -> None:
    desk = make_desk(
        {
            "receivers": {"pager": HOOK, "vision": HOOK, "speech": HOOK, "rest": HOOK, "gpu": HOOK},
            "routes": [
                {"matchers": ['severity="critical"'], "to": ["pager"], "continue": True},
                {
                    "matchers": ["layer=gpu", "namespace=~'m.*'".replace("'", '"')],
                    "to": "gpu",
                    "continue": True,
                },
                {"matchers": "team=vision", "to": ["vision"], "group_wait": "1m"},
                {"matchers": 'team="speech"', "to": ["speech"]},
                {"to": ["rest"]},
            ],
        }
    )
    desk.delivery.take([incident("a", severity=Severity.CRITICAL)])
    assert desk.after(10 * SECOND) == ["pager opened a", "gpu opened a"]
    assert desk.after(50 * SECOND) == ["vision opened a"]
    other = symptom("Slow", labels={"team": "speech", "layer": "training"})
    desk.delivery.take([incident("b", symptom("X", labels={"team": "", "layer": ""}), other)])
    assert desk.after(10 * SECOND) == ["speech opened b", "rest opened b"]  # each symptom has its way


def test_quiet_times(make_desk: Any) -> None:
    """It is Friday, 8 in the morning in Greenwich."""
    routes = [
        {"matchers": "severity=critical", "to": "night"},
        {"to": "day", "quiet": ["17:00-09:00", "sat-sun"]},
    ]
    alerting = {"receivers": {"night": HOOK, "day": HOOK}, "routes": routes, "time_zone": "Europe/Berlin"}
    desk = make_desk(alerting)
    desk.delivery.take([incident("at nine")])
    assert desk.after(10 * SECOND) == ["day opened at nine"]  # which it is there
    desk.now_ms += 8 * HOUR
    desk.delivery.take([incident("late"), incident("gone")])
    desk.delivery.take([incident("grave", severity=Severity.CRITICAL), resolved(incident("at nine"))])
    assert desk.after(10 * SECOND) == ["night opened grave", "day resolved at nine"]  # a page is closed
    desk.delivery.take([resolved(incident("gone"))])
    assert desk.after(24 * HOUR) == ["night repeated grave"]
    assert desk.after(40 * HOUR - 21 * SECOND) == ["night repeated grave"]  # Monday, just before nine
    assert desk.after(1 * SECOND) == []
    assert desk.after(10 * SECOND) == ["day opened late"]


def test_it_is_said_why_nobody_is_told(make_desk: Any) -> None:
    rule = {"source": ["alertname=NodeDown"], "target": 'alertname=~".*"', "equal": ["node"]}
    routes = [
        {"matchers": "alertname=Noise", "to": []},
        {"matchers": "alertname=Late", "to": "ops", "quiet": ["00:00-23:59"]},
        {"to": "ops"},
    ]
    desk = make_desk({**ONE, "inhibit": [rule], "routes": routes})
    silence = desk.silence("alertname=GpuHot", "node=n2")
    there = {
        "down": ("NodeDown", "n1"), "hot": ("GpuHot", "n1"), "mute": ("GpuHot", "n2"),
        "late": ("Late", "n3"), "noise": ("Noise", "n4"),
    }  # fmt: skip
    desk.delivery.take([incident(id, symptom(name, node=node)) for id, (name, node) in there.items()])
    told = {id: [one[:3] for one in why] for id, why in desk.delivery.held_back().items()}
    assert told == {
        "hot": [("inhibited", "", 'while there is alertname="NodeDown"')],
        "mute": [("silence", silence, "me: why")],
        "late": [("quiet", "ops", "told afterwards, if it still lasts")],
        "noise": [("no-route", "", "no route leads to a receiver (alerting.routes)")],
    }
    desk.delivery.configure(plan({}))
    assert [one.why for one in desk.delivery.held_back()["down"]] == ["no-receiver"]


def test_who_was_told_hears_the_end(make_desk: Any) -> None:
    routes = [{"matchers": "severity=critical", "to": "ops"}, {"to": []}]
    desk = make_desk({**ONE, "routes": routes})
    desk.delivery.take([incident("a", severity=Severity.CRITICAL), incident("b")])
    assert desk.after(10 * SECOND) == ["ops opened a"]
    desk.delivery.take([resolved(incident("a")), resolved(incident("b"))])
    assert desk.after(0) == ["ops resolved a"]


def test_a_silence_of_the_cause_is_one_of_what_follows(make_desk: Any) -> None:
    desk = make_desk()
    name = desk.silence("alertname=GpuHot", "node=~gpu-.*")
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"))])
    assert desk.after(30 * MINUTE) == []
    desk.restart()  # it is on disk
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"))])
    assert desk.after(29 * MINUTE) == []
    desk.silences.expire(name, desk.now_ms)
    desk.delivery.look()
    assert desk.after(10 * SECOND) == ["ops opened i1"]
    desk.silence("alertname=GpuHot")
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"), symptom("Other"))])
    assert desk.after(2 * MINUTE) == []
    desk.delivery.take([resolved(incident())])
    assert desk.after(0) == ["ops resolved i1"]  # a page that was opened is closed


@pytest.mark.parametrize("own", [("team=vision",), ("cluster=lab",), ("team=~v.*", "cluster=lab")])
def test_a_silence_of_a_teams_cause_leaves_what_hits_others(make_desk: Any, own: tuple[str, ...]) -> None:
    desk = make_desk()
    desk.silence("alertname=GpuHot", *own)
    follows = symptom("SlowJob")
    others = symptom("SlowJob", "theirs", labels={"team": "nlp", "cluster": "west"})
    desk.delivery.take([incident("own", symptom(), follows), incident("both", symptom(), follows, others)])
    assert desk.after(10 * SECOND) == ["ops opened both"]
    desk.delivery.take([incident("over", symptom(), follows, replace(others, ended_ms=NOW_MS))])
    assert desk.after(10 * SECOND) == []
    desk.silence("alertname=~.*", "team=~vision|nlp")  # of whoever may silence for both
    desk.delivery.take([incident("taken", symptom(), follows, others)])
    assert desk.after(10 * SECOND) == []


def test_a_silence_of_an_effect_leaves_the_cause(make_desk: Any) -> None:
    desk = make_desk()
    desk.silence("alertname=SlowJob")
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob")), incident("i2", symptom("SlowJob"))])
    assert desk.after(10 * SECOND) == ["ops opened i1"]


def test_a_silence_takes_back_what_waits(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.silence("workload=llm")
    desk.delivery.look()
    assert desk.after(10 * SECOND) == []
    desk.delivery.take([resolved(incident())])
    assert desk.after(MINUTE) == []


def test_what_may_have_arrived_before_it_was_silenced_is_closed(make_desk: Any) -> None:
    """It was sent, and the server killed before it could note that."""
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.now_ms += MINUTE
    desk.silence("workload=llm")
    desk.restart()
    desk.delivery.take([incident()])
    assert desk.after(MINUTE) == []
    desk.restart()
    desk.delivery.take([resolved(incident())])
    assert desk.after(0) == ["ops resolved i1"]


def test_what_is_no_silence(make_desk: Any) -> None:
    desk = make_desk()
    for matchers in ([], ["a b"], ['node=~"("'], ['x=~".*"']):
        with pytest.raises(RequestError):
            desk.silence(*matchers)
    with pytest.raises(RequestError, match="ends after"):
        desk.silences.add(["a=b"], NOW_MS, NOW_MS, "me", "why", NOW_MS)
    with pytest.raises(RequestError, match="needs a comment"):
        desk.silences.add(["a=b"], NOW_MS, NOW_MS + 1, "me", " ", NOW_MS)
    with pytest.raises(NotFound):
        desk.silences.expire("nothing", NOW_MS)


def test_inhibition(make_desk: Any) -> None:
    rule = {"source": ["alertname=NodeDown"], "target": 'alertname=~".*"', "equal": ["node"]}
    desk = make_desk({**ONE, "inhibit": [rule]})
    down = incident("down", symptom("NodeDown", node="n1"))
    desk.delivery.take([down, incident("hot", symptom("GpuHot", node="n1"))])
    desk.delivery.take([incident("far", symptom("GpuHot", node="n2"))])
    assert desk.after(10 * SECOND) == [
        "ops opened down",
        "ops opened far",
    ]  # the first does not silence itself
    desk.delivery.take([resolved(down)])
    assert desk.after(10 * SECOND) == ["ops resolved down"]
    assert desk.after(10 * SECOND) == ["ops opened hot"]


def test_a_label_that_both_lack_is_equal_and_one_that_only_one_has_is_not(make_desk: Any) -> None:
    """As in Alertmanager."""
    rule = {"source": ["alertname=NodeDown"], "target": "alertname=GpuHot", "equal": ["rack"]}
    desk = make_desk({**ONE, "inhibit": [rule]})
    desk.delivery.take([incident("down", symptom("NodeDown")), incident("hot", symptom("GpuHot"))])
    desk.delivery.take([incident("racked", symptom("GpuHot", labels={"rack": "r1"}))])
    assert desk.after(10 * SECOND) == ["ops opened down", "ops opened racked"]


def test_a_pattern_of_a_silence_means_whole_values(make_desk: Any) -> None:
    desk = make_desk()
    desk.silence('node=~"gpu-1|gpu-2"', "workload!~vision.*")
    nodes = ("gpu-1", "gpu-11", "my-gpu-1", "gpu-2")
    desk.delivery.take([incident(node, symptom(node=node)) for node in nodes])
    desk.delivery.take([incident("vision", symptom(node="gpu-1", workload="vision-7b"))])
    assert desk.after(10 * SECOND) == ["ops opened gpu-11", "ops opened my-gpu-1", "ops opened vision"]


def test_what_came_and_went_while_nobody_could_be_reached_is_told_as_one(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.now_ms += HOUR
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"))])
    desk.restart()
    desk.delivery.take([resolved(incident("i1", symptom(), symptom("SlowJob")))])
    ((_, notice),) = desk.send(0)
    assert notice.is_resolved
    assert len(notice.symptoms) == 2
    assert desk.after(9 * HOUR) == []


def test_what_is_over_before_it_was_to_be_told_is_not_told(make_desk: Any) -> None:
    desk = make_desk({**ONE, "group_wait": "5m"})
    desk.delivery.take([incident()])
    assert desk.after(4 * MINUTE) == []
    desk.delivery.take([resolved(incident())])
    assert desk.after(HOUR) == []


def test_one_that_opens_again_before_its_end_was_told_just_goes_on(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.after(10 * SECOND)
    desk.delivery.take([resolved(incident())])
    desk.delivery.take([incident()])
    assert desk.after(MINUTE) == []


def test_one_that_goes_on_in_another(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident("told")])
    desk.after(10 * SECOND)
    desk.delivery.take([incident("new")])
    desk.delivery.take([replace(resolved(incident(name)), merged_into="root") for name in ("told", "new")])
    ((_, notice),) = desk.send(MINUTE)
    assert (notice.incident, notice.merged_into) == ("told", "root")


def test_what_was_told_is_known_after_a_restart(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.after(10 * SECOND)
    desk.restart()
    desk.delivery.take([incident()])
    assert desk.after(MINUTE) == []
    desk.delivery.take([resolved(incident())])
    assert desk.after(0) == ["ops resolved i1"]


def test_a_refused_message_is_not_sent_again_and_again(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    assert desk.after(10 * SECOND, is_refused=True) == ["ops opened i1"]
    for pause in (MINUTE, 5 * MINUTE, 15 * MINUTE, 4 * HOUR, 4 * HOUR):
        assert desk.after(pause - 1) == []
        assert desk.after(1, is_refused=True) == ["ops opened i1"]
    assert desk.told == []
    desk.delivery.configure(desk.plan)  # somebody has put it right
    assert desk.after(10 * SECOND, is_refused=True) == ["ops opened i1"]
    desk.restart()
    desk.delivery.take([incident()])
    assert desk.after(10 * SECOND) == ["ops opened i1"]
    assert desk.after(HOUR) == []


def test_an_end_that_is_refused_is_told_again_for_a_while(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident("a"), incident("b")])
    desk.after(10 * SECOND)
    desk.delivery.take([resolved(incident("a")), resolved(incident("b"))])
    assert desk.after(0, is_refused=True) == ["ops resolved a", "ops resolved b"]
    assert desk.after(MINUTE - 1) == []
    assert desk.after(1, is_refused=True) == ["ops resolved a", "ops resolved b"]
    desk.delivery.take([incident("b")])  # it is open again, and known there
    assert desk.after(5 * MINUTE, is_refused=True)[0] == "ops resolved a"
    assert "ops resolved a" in desk.after(15 * MINUTE, is_refused=True)
    desk.delivery.take([resolved(incident("b"))])
    assert [one for one in desk.after(9 * HOUR) if one.endswith(" a")] == []  # and not forever


def test_what_a_receiver_took_before_it_refused_is_closed_after_a_restart(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    assert desk.after(10 * SECOND) == ["ops opened i1"]
    more = incident("i1", symptom(), symptom("SlowJob"))
    desk.delivery.take([more])
    assert desk.after(MINUTE, is_refused=True) == ["ops changed i1"]
    desk.restart()
    desk.delivery.take([more])
    assert desk.after(MINUTE, is_refused=True) == ["ops changed i1"]  # and not as if it had never opened
    desk.delivery.configure(desk.plan)
    desk.delivery.take([resolved(more)])
    assert desk.after(0) == ["ops resolved i1"]


def test_a_message_that_changes_while_it_is_sent_is_sent_again(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.now_ms += 10 * SECOND
    taken = desk.outbox.due("ops", desk.now_ms, 1)
    desk.delivery.take([resolved(incident())])
    desk.delivery.settle(desk.plan.outlets[0], taken, is_refused=False)
    assert desk.after(0) == ["ops resolved i1"]


def test_a_message_that_is_put_anew_while_it_is_sent_is_not_sent_twice(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.now_ms += 10 * SECOND
    taken = desk.outbox.due("ops", desk.now_ms, 1)
    desk.delivery.take([incident(lost_quanta=5)])
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"), lost_quanta=5)])
    desk.delivery.settle(desk.plan.outlets[0], taken, is_refused=False)
    assert desk.after(59 * SECOND) == []
    assert desk.after(1 * SECOND) == ["ops changed i1"]  # the other symptom


def test_one_that_turns_out_to_be_a_part_of_another_while_it_is_sent_is_closed(make_desk: Any) -> None:
    desk = make_desk()
    desk.now_ms += HOUR
    desk.delivery.take([incident()])
    desk.now_ms += 10 * SECOND
    taken = desk.outbox.due("ops", desk.now_ms, 1)
    desk.delivery.take([replace(resolved(incident()), merged_into="root")])
    desk.delivery.settle(desk.plan.outlets[0], taken, is_refused=False)
    ((_, notice),) = desk.send(0)
    assert (notice.is_resolved, notice.merged_into) == (True, "root")
    assert desk.after(HOUR) == []


def test_a_receiver_that_no_route_leads_to_any_more_is_not_told(make_desk: Any) -> None:
    desk = make_desk({"receivers": {"ops": HOOK, "ml": HOOK}})
    desk.delivery.take([incident()])
    desk.alerting = {**desk.alerting, "routes": [{"to": ["ml"]}]}
    desk.delivery.configure(plan(desk.alerting))
    assert desk.after(10 * SECOND) == ["ml opened i1"]


def test_a_clock_that_is_set_back_holds_nothing_up(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.after(10 * SECOND)
    desk.now_ms -= HOUR
    desk.delivery.take([incident("i1", symptom(), symptom("SlowJob"))])
    assert desk.after(MINUTE) == ["ops changed i1"]
    desk.delivery.take([resolved(incident())])
    assert desk.after(-HOUR) == ["ops resolved i1"]


def test_what_is_said_again_has_the_money_of_now(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.after(10 * SECOND)
    desk.delivery.refresh([incident(lost_quanta=7 * 10**9), incident("over by now")])
    ((_, notice),) = desk.send(4 * HOUR)
    assert (notice.incident, notice.lost) == ("i1", "7.00 USD")


def test_what_nobody_keeps_any_more_is_closed(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident("told"), incident("kept")])
    desk.after(10 * SECOND)
    desk.delivery.take([incident("waits")])
    desk.restart()
    desk.delivery.take([incident("kept")])
    assert desk.after(10 * MINUTE) == ["ops opened waits"]
    ((_, told), (_, waited)) = sorted(desk.send(1 * SECOND), key=lambda one: one[1].incident)
    assert (told.incident, waited.incident) == ("told", "waits")
    assert told.is_resolved
    assert told.title == "GpuHot on gpu-7 (Trilens has lost sight of it)"
    assert desk.after(HOUR) == []
    desk.now_ms += 31 * 24 * HOUR
    desk.delivery.upkeep()
    assert [one.key for one in desk.outbox.told()] == ["kept"]  # it lasts
    desk.restart()
    desk.delivery.upkeep()
    assert desk.outbox.told() == []


def test_what_nobody_keeps_any_more_is_closed_also_where_its_beginning_still_waits(make_desk: Any) -> None:
    desk = make_desk()
    desk.delivery.take([incident()])
    desk.restart()
    desk.now_ms += HOUR  # the receiver is away
    desk.delivery.look()
    assert desk.after(HOUR) == ["ops opened i1"]
    assert desk.after(0) == ["ops resolved i1"]


def test_the_queue_is_bounded_and_what_is_over_goes_first(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "queue.sqlite")
    rows = [Waiting("ops", f"k{n}", b"x", n in (2, 3), NOW_MS + n, NOW_MS) for n in range(6)]
    assert outbox.put(rows[:5], 4) == {"ops": 1}
    assert [one.key for one in outbox.due("ops", NOW_MS, 9)] == ["k0", "k1", "k3", "k4"]
    assert outbox.put(rows[5:], 2) == {"ops": 3}
    assert [one.key for one in outbox.due("ops", NOW_MS, 9)] == ["k4", "k5"]
    assert outbox.backlogs()["ops"].count == 2


def test_a_damaged_queue_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite"
    file.write_bytes(b"this is no database at all" * 100)
    outbox = Outbox(file)
    outbox.put([Waiting("ops", "k", b"x", False, 0, 0)], 10)
    assert len(outbox.due("ops", 1, 9)) == 1
    assert file.with_name("queue.sqlite.damaged").exists()
    assert file.stat().st_mode & 0o777 == 0o600, "in its place is one for its owner alone"


def test_a_queue_whose_readers_somebody_else_decides_on_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", refuse)
    outbox = Outbox(tmp_path / "queue.sqlite")
    outbox.put([Waiting("ops", "k", b"x", False, 0, 0)], 10)
    assert len(outbox.due("ops", 1, 9)) == 1


def test_a_queue_that_is_damaged_somewhere_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "queue.sqlite"
    outbox = Outbox(file)
    outbox.put([Waiting("ops", f"k{n}", b"x" * 500, False, 0, 0) for n in range(100)], 100)
    outbox.close()
    whole = bytearray(file.read_bytes())
    whole[8192:] = b"\xff" * (len(whole) - 8192)  # its beginning reads well
    file.write_bytes(whole)
    assert Outbox(file).backlogs() == {}
    assert file.with_name("queue.sqlite.damaged").exists()


def test_what_the_disk_does_not_take_is_told_and_kept_when_it_does(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        desk = Desk(disk / "queue.sqlite", ONE)
        desk.delivery.take([incident("told")])
        assert desk.after(10 * SECOND) == ["ops opened told"]
        with (disk / "else").open("wb") as other, pytest.raises(OSError, match="No space"):
            while True:
                other.write(bytes(65_536))
        many = tuple(f"ml/Job/{n}" for n in range(10_000))  # no page has room for it
        desk.delivery.take([incident("new", workloads=many), resolved(incident("told"))])
        assert desk.after(0) == ["ops resolved told"]
        assert desk.after(10 * SECOND) == ["ops opened new"]
        assert desk.after(HOUR) == []
        enlarge(disk)
        until(lambda: _is_on_disk(desk, disk / "queue.sqlite"), "it is not kept")
        desk.restart()
        assert {one.key for one in desk.outbox.told()} == {"new"}
        desk.outbox.close()


def _is_on_disk(desk: Desk, file: Path) -> bool:
    """What another process would find, were this one killed now."""
    desk.outbox.backlogs()
    found = file.parent.parent / "found"
    found.mkdir(exist_ok=True)
    for part in file.parent.glob(f"{file.name}*"):
        shutil.copy(part, found)
    outbox = Outbox(found / file.name)
    keys = {one.key for one in outbox.told()}
    outbox.close()
    return keys == {"new"}


def test_alerts_go_to_each_alertmanager_as_they_stand_now(make_desk: Any) -> None:
    urls = ["http://127.0.0.1:9", "http://127.0.0.1:10"]
    desk = make_desk({"receivers": {"am": {"alertmanager": {"urls": urls}}, "ops": HOOK}})
    desk.delivery.take_alerts([alert(node="n1"), alert(node="n2")])
    desk.delivery.take_alerts([alert(node="n1", is_over=True)])
    assert {name: backlog.count for name, backlog in desk.outbox.backlogs().items()} == {
        "am http://127.0.0.1:9": 2,
        "am http://127.0.0.1:10": 2,
    }
    due = desk.outbox.due("am http://127.0.0.1:9", NOW_MS, 9)
    bodies = sorted((message.body.decode() for message in due), key=lambda body: '"n2"' in body)
    assert '"node":"n1"' in bodies[0]
    assert '"site":"berlin"' in bodies[0]
    assert '"endsAt":"2027-01-15T08:00:00Z"' in bodies[0]  # its end, and not when it would be forgotten
    assert '"endsAt":"2027-01-15T08:04:00Z"' in bodies[1]


def test_a_wrong_pattern_says_where_it_stands() -> None:
    with pytest.raises(ConfigError, match=r"alerting.routes\[0\].matchers: '\(' is not a regular expression"):
        plan({**ONE, "routes": [{"matchers": ['team=~"("'], "to": ["ops"]}, {"to": []}]})
