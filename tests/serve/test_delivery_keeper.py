"""Notifications through real threads, a real queue and real receivers: away and back, killed, refused."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from receivers_at_work import ANSWER_S, Alertmanager, HttpReceiver, alert, incident, plan, resolved
from servers import free_port, until
from trilens.alert.delivery.delivery import Delivery
from trilens.alert.delivery.outbox import Outbox, Waiting
from trilens.alert.delivery.sender import Sender
from trilens.alert.delivery.silences import Silences
from trilens.model.errors import NotFound, StoreError
from trilens.serve.delivery import DeliveryKeeper

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE = {"group_wait": "0s"}


def keeper_of(folder: Path, receivers: dict[str, Any]) -> DeliveryKeeper:
    return DeliveryKeeper(
        plan({"receivers": receivers, **AT_ONCE}), folder / "queue.sqlite", first_pause_s=0.05
    )


def report(keeper: DeliveryKeeper, receiver: str = "ops") -> Any:
    return next(one for one in keeper.reports() if one.outlet.receiver == receiver)


def test_one_that_is_away_gets_it_when_it_is_back(tmp_path: Path) -> None:
    away, here = HttpReceiver(), HttpReceiver()
    keeper = keeper_of(
        tmp_path, {"away": {"webhook": {"url": away.url}}, "here": {"slack": {"url": here.url}}}
    )
    told = threading.Semaphore(0)
    keeper.listen(lambda _incident, _receiver, _at_ms: told.release())
    with here:
        keeper.start()
        keeper.take([incident()])
        assert "incident i1" in here.next().body.decode()  # nobody waits for the other
        until(lambda: report(keeper, "away").state.failed > 1, "it is not tried again")
        assert told.acquire(timeout=ANSWER_S)
        assert report(keeper, "away").backlog.count == 1
        metrics = {one.name: one for one in keeper.metrics()}
        waiting = {x.labels["receiver"]: x.value for x in metrics["trilens_notifications_waiting"].samples}
        assert waiting == {"away": 1.0, "here": 0.0}
        with away:
            assert away.next().json["trilens"]["incident"] == "i1"
            assert told.acquire(timeout=ANSWER_S)
            assert report(keeper, "away").state.is_well
            assert report(keeper, "away").backlog.count == 0
        keeper.stop()


def test_a_receiver_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    with HttpReceiver(answers=[(429, {"Retry-After": "1000"}, b"slow down")]) as receiver:
        keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": receiver.url}}})
        keeper.start()
        keeper.take([incident()])
        receiver.next()
        until(lambda: report(keeper).state.again_ms is not None, "it is not left alone")
        asked_ms = report(keeper).state.again_ms - time.time() * 1000
        assert 900_000 < asked_ms <= 1_000_000
        keeper.take([incident("i2")])  # nor does another one hurry it
        keeper.stop()
        assert receiver.posted.empty()


def test_one_that_asks_for_no_time_is_not_asked_without_end(tmp_path: Path) -> None:
    with HttpReceiver(answers=[(503, {"Retry-After": "0"}, b"")] * 2) as receiver:
        one = plan({"receivers": {"ops": {"webhook": {"url": receiver.url}}}, **AT_ONCE})
        outbox = Outbox(tmp_path / "queue.sqlite")
        delivery = Delivery(one, outbox, Silences(outbox))
        sender = Sender(one.outlets[0], outbox, delivery, first_pause_s=10.0)
        delivery.take([incident()])
        assert [sender.send_due() > pause_s for pause_s in (7.0, 14.0)] == [True, True]


def test_a_message_that_cannot_be_read_keeps_no_other_from_being_sent(tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        one = plan({"receivers": {"ops": {"webhook": {"url": receiver.url}}}, **AT_ONCE})
        outbox = Outbox(tmp_path / "queue.sqlite")
        outbox.put([Waiting("ops", "i0", b"{}", False, 0, 0)], 10)  # as of another version
        delivery = Delivery(one, outbox, Silences(outbox))
        sender = Sender(one.outlets[0], outbox, delivery)
        delivery.take([incident()])
        sender.send_due()
        assert receiver.next().json["trilens"]["incident"] == "i1"
        assert (sender.state.refused, sender.state.sent, outbox.backlogs()) == (1, 1, {})


def test_a_refused_message_is_reported_and_the_next_one_sent(tmp_path: Path) -> None:
    with HttpReceiver(answers=[(400, {}, b"no such channel")]) as receiver:
        keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": receiver.url}}})
        keeper.start()
        keeper.take([incident("i1")])
        assert receiver.next().json["trilens"]["incident"] == "i1"
        until(lambda: report(keeper).state.refused == 1, "it is not counted")
        assert report(keeper).state.last_error == "HTTP 400: no such channel"
        keeper.take([incident("i2")])
        assert receiver.next().json["trilens"]["incident"] == "i2"
        until(lambda: report(keeper).state.is_well, "it is not well again")
        keeper.stop()
        assert receiver.posted.empty()


def test_what_was_sent_and_could_not_be_noted_is_not_sent_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpReceiver() as receiver:
        one = plan({"receivers": {"ops": {"webhook": {"url": receiver.url}}}, **AT_ONCE})
        outbox = Outbox(tmp_path / "queue.sqlite")
        delivery = Delivery(one, outbox, Silences(outbox))
        sender = Sender(one.outlets[0], outbox, delivery)
        delivery.take([incident()])
        with monkeypatch.context() as disk:
            full = StoreError("the disk is full")
            disk.setattr(outbox, "done", Mock(side_effect=full))
            for _ in range(3):
                with pytest.raises(StoreError):
                    sender.send_due()
        sender.send_due()
        assert outbox.backlogs() == {}
        assert receiver.posted.qsize() == 1


def test_other_receivers_while_it_runs(tmp_path: Path) -> None:
    with HttpReceiver() as old, HttpReceiver() as new:
        keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": old.url}}})
        keeper.start()
        keeper.take([incident()])
        old.next()
        more = {"ops": {"webhook": {"url": old.url}}, "new": {"webhook": {"url": new.url}}}
        keeper.configure(plan({"receivers": more, **AT_ONCE}))
        assert new.next().json["trilens"]["occasion"] == "opened"
        assert report(keeper).state.sent == 1  # the same one goes on
        keeper.configure(plan({"receivers": {"new": {"webhook": {"url": new.url}}}, **AT_ONCE}))
        keeper.take([resolved(incident())])
        assert new.next().json["trilens"]["occasion"] == "resolved"
        keeper.stop()
        assert old.posted.empty()


def test_other_receivers_are_told_though_the_disk_is_full_when_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpReceiver() as old, HttpReceiver() as new:
        keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": old.url}}})
        keeper.start()
        with monkeypatch.context() as disk:
            disk.setattr(Outbox, "keep_outlets", Mock(side_effect=StoreError("the disk is full")))
            keeper.configure(plan({"receivers": {"ops": {"webhook": {"url": new.url}}}, **AT_ONCE}))
        keeper.take([incident()])
        assert new.next().json["trilens"]["occasion"] == "opened"
        keeper.stop()


def test_a_queue_that_cannot_be_kept_is_an_error_where_there_is_somebody_to_tell(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    file = tmp_path / "file" / "queue.sqlite"
    with pytest.raises(StoreError, match=r"set storage\.data_dir"):
        DeliveryKeeper(plan({"receivers": {"ops": {"webhook": {"url": "http://127.0.0.1:9/"}}}}), file)
    keeper = DeliveryKeeper(plan({}), file)  # a server that keeps its data elsewhere, and tells nobody
    keeper.silences.add(["a=b"], 0, 2, "me", "why", 1)
    keeper.take([incident()])
    assert len(keeper.silences.every()) == 1
    keeper.stop()


def test_a_test_message(tmp_path: Path) -> None:
    with HttpReceiver() as receiver:
        keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": receiver.url}}})
        assert [one.error for one in keeper.test("ops")] == [None]
        assert receiver.next().json["trilens"]["occasion"] == "test"
        with pytest.raises(NotFound, match="there are: ops"):
            keeper.test("oops")
    assert "refused" in (keeper.test("ops")[0].error or "")
    keeper.stop()


_KILLED = """
import sys
from pathlib import Path
from receivers_at_work import alert, incident, plan, resolved
from trilens.serve.delivery import DeliveryKeeper

url, folder = sys.argv[1:]
receivers = {"ops": {"webhook": {"url": url}}}
keeper = DeliveryKeeper(plan({"receivers": receivers, "group_wait": "0s"}), Path(folder) / "queue.sqlite")
keeper.start()
keeper.take([incident("told")])
sys.stdin.readline()
keeper.take([incident("new"), resolved(incident("told"))])
print("taken", flush=True)
sys.stdin.readline()
"""


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """What was taken is told by the next process; what was told is not told again."""
    receiver = HttpReceiver()
    command = [sys.executable, "-c", _KILLED, receiver.url, str(tmp_path)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=here, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with receiver:
            assert receiver.next().json["trilens"]["incident"] == "told"
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "taken\n"
        process.send_signal(signal.SIGKILL)
    keeper = keeper_of(tmp_path, {"ops": {"webhook": {"url": receiver.url}}})
    heard: queue.Queue[str] = queue.Queue()
    keeper.listen(lambda name, _receiver, _at_ms: heard.put(name))
    with receiver:
        keeper.start()
        until(lambda: report(keeper).backlog.count == 0, "something still waits")
        assert heard.empty()  # nobody knows of incidents yet
        keeper.take([incident("new")])  # as after any start: those that are open
        assert {heard.get(timeout=ANSWER_S) for _ in range(2)} == {"new", "told"}
        told = [receiver.next().json["trilens"] for _ in range(2)]
        assert sorted((one["incident"], one["occasion"]) for one in told) == [
            ("new", "opened"),
            ("told", "resolved"),
        ]
        keeper.stop()
        assert receiver.posted.empty()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Alertmanager, Alertmanager]:
    folder = tmp_path_factory.mktemp("alertmanagers")
    gossip = free_port(), free_port()
    return Alertmanager(folder, gossip[0], gossip[1]), Alertmanager(folder, gossip[1], gossip[0])


def test_a_pair_of_alertmanagers_of_which_one_is_away(
    pair: tuple[Alertmanager, Alertmanager], tmp_path: Path
) -> None:
    first, second = pair
    urls = [first.url, second.url]
    keeper = keeper_of(tmp_path, {"am": {"alertmanager": {"urls": urls}}})
    now_ms = time.time_ns() // 1_000_000
    n1, n2 = ({"node": node, "now_ms": now_ms} for node in ("n1", "n2"))
    with first.running():
        keeper.start()
        keeper.take_alerts([alert(**n1), alert(**n2)])
        until(lambda: first.alerts() == {"n1": "active", "n2": "active"}, "the one that is there has them")
        keeper.take_alerts([alert(is_over=True, **n2)])
        until(lambda: first.alerts() == {"n1": "active"}, "and hears what is over")
        assert [one.backlog.count for one in keeper.reports()] == [0, 2]
        with second.running():
            until(lambda: second.alerts() == {"n1": "active"}, "the other hears of all when it is back")
            until(lambda: not any(one.backlog.count for one in keeper.reports()), "nothing waits any more")
            assert all(one.error is None for one in keeper.test("am"))
            keeper.stop()
