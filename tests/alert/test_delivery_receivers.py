"""Each kind of receiver against a real server: what arrives there, and what its answers mean."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
import time
from dataclasses import replace
from email import message_from_string, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from certificates import make_certificates
from dripping import HEAD, Dripping
from receivers_at_work import NOW_MS, HttpReceiver, SmtpServer, incident, plan, resolved, symptom
from trilens.alert.delivery.notice import Occasion, encode, notice_of
from trilens.alert.delivery.receivers.wording import followers
from trilens.model.errors import ConfigError, DeliveryError, NotificationRefused, ReceiverAway
from trilens.model.finding import Severity
from trilens.model.incident import SymptomKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.alert.delivery.outlet import Channel
    from trilens.model.incident import Incident

LINK = "http://127.0.0.1:9333/api/incidents/i1"
HOT = incident(
    "i1",
    symptom(text="GPU 3 of gpu-7 throttles <at 91 C>", action="Drain gpu-7 & see its fans."),
    symptom("SlowJob", text="llm is 31 % slower"),
    severity=Severity.CRITICAL,
    title="GPU 3 of gpu-7 throttles <at 91 C>",
)


@pytest.fixture(scope="module")
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as server:
        yield server


def channels(receiver: dict[str, Any]) -> list[Channel]:
    return [outlet.open() for outlet in plan({"receivers": {"ops": receiver}}).outlets]


def channel(receiver: dict[str, Any]) -> Channel:
    (one,) = channels(receiver)
    return one


def told(one: Incident = HOT, occasion: Occasion = Occasion.OPENED) -> list[bytes]:
    return [encode(notice_of(one, occasion, LINK))]


def test_slack(receiver: HttpReceiver) -> None:
    channel({"slack": {"url": receiver.url}}).send(told())
    message = receiver.next().json
    assert message["text"] == "[critical] GPU 3 of gpu-7 throttles &lt;at 91 C&gt;"
    header, body, following, context = message["blocks"]
    assert header["text"] == {"type": "plain_text", "text": "[critical] GPU 3 of gpu-7 throttles <at 91 C>"}
    assert body["text"]["text"].splitlines() == [
        "*Where:* `cluster=lab namespace=ml workload=llm rank=3 node=gpu-7`",
        "*When:* since 2027-01-15 07:59:30 UTC",
        "*Do now:* Drain gpu-7 &amp; see its fans.",
        "*Lost so far:* 12.34 USD",
        "*Suffers:* ml/Job/llm",
    ]
    assert following["text"]["text"] == "*What follows from it*\n• SlowJob: llm is 31 % slower"
    assert context["elements"][0]["text"] == f":red_circle: <{LINK}|incident i1>"


def test_an_event_is_one_moment_and_not_said_to_be_over() -> None:
    over = {"ended_ms": NOW_MS}
    event = symptom("xid 79", kind=SymptomKind.EVENT, **over)
    notice = notice_of(incident("i1", symptom(), symptom("SlowJob", **over), event), Occasion.OPENED, "")
    assert followers(notice) == ["SlowJob: SlowJob on gpu-7 (over)", "xid 79: xid 79 on gpu-7"]


def test_slack_wakes_nobody_by_a_name(receiver: HttpReceiver) -> None:
    named = symptom("<!here>", node="`<!channel>`", action="<@U1>", text="<!everyone>")
    one = incident("i1", named, named, title="<!subteam^S1>", workloads=("<#C1>",))
    channel({"slack": {"url": receiver.url}}).send(told(one))
    message = receiver.next().json
    assert "node='&lt;!channel&gt;'`" in message["blocks"][1]["text"]["text"]
    told_as_markup = [message["text"], *(block["text"]["text"] for block in message["blocks"][1:-1])]
    assert "<" not in "".join(told_as_markup)


def test_slack_takes_no_more_than_so_much(receiver: HttpReceiver) -> None:
    many = [symptom("Slow", f"k{n}", text="x" + "&" * 200) for n in range(30)]
    one = incident("i1", *many, title="y" * 400, workloads=tuple(f"ml/Job/{n}" for n in range(99)))
    channel({"slack": {"url": receiver.url}}).send(told(one))
    blocks = receiver.next().json["blocks"]
    assert len(blocks[0]["text"]["text"]) == 150
    assert all(len(block["text"]["text"]) <= 3_000 for block in blocks[:-1])
    assert "and 91 more" in blocks[1]["text"]["text"]
    assert blocks[2]["text"]["text"].endswith("&amp;…")  # not in the middle of one


def test_pagerduty(receiver: HttpReceiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("R0UT3\n", encoding="utf-8")
    events = channel({"pagerduty": {"url": receiver.url, "routing_key_file": str(tmp_path / "key")}})
    events.send(told())
    event = receiver.next().json
    assert {name: event[name] for name in ("routing_key", "event_action", "dedup_key", "client_url")} == {
        "routing_key": "R0UT3",
        "event_action": "trigger",
        "dedup_key": "i1",
        "client_url": LINK,
    }
    details = event["payload"].pop("custom_details")
    assert event["payload"] == {
        "summary": HOT.title,
        "source": "llm",
        "severity": "critical",
        "timestamp": "2027-01-15T07:59:30Z",
        "component": "gpu-7",
        "group": "vision",
        "class": "GpuHot",
    }
    assert details["do now"] == "Drain gpu-7 & see its fans."
    assert details["lost so far"] == "12.34 USD"
    acknowledged = replace(HOT, acknowledged_ms=NOW_MS, acknowledged_by="ada")
    events.send(told(acknowledged, Occasion.ACKNOWLEDGED))
    events.send(told(resolved(HOT), Occasion.RESOLVED))
    known = [receiver.next().json for _ in range(2)]
    assert [(event["event_action"], event["dedup_key"]) for event in known] == [
        ("acknowledge", "i1"),
        ("resolve", "i1"),
    ]


def test_pagerduty_is_not_left_ringing_for_what_somebody_has_already(receiver: HttpReceiver) -> None:
    events = channel({"pagerduty": {"url": receiver.url, "routing_key": "k"}})
    many = tuple(f"ml/Job/{n}" for n in range(50_000))
    events.send(told(replace(HOT, acknowledged_ms=NOW_MS, acknowledged_by="ada", workloads=many)))
    opened = receiver.next()
    assert len(opened.body) < 512 * 1024  # more it does not take
    actions = [(one.json["event_action"], one.json["dedup_key"]) for one in (opened, receiver.next())]
    assert actions == [("trigger", "i1"), ("acknowledge", "i1")]


def test_a_webhook_whose_address_is_a_secret(receiver: HttpReceiver, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{receiver.url}/t0ken\n", encoding="utf-8")
    by_file, by_query = (
        {"webhook": {"url_file": str(file)}},
        {"webhook": {"url": f"{receiver.url}?key=t0ken"}},
    )
    for settings in (by_file, by_query):
        (outlet,) = plan({"receivers": {"ops": settings}}).outlets
        assert outlet.where in (f"127.0.0.1:{receiver.port}", receiver.url)
        outlet.open().send(told())
        assert "t0ken" in receiver.next().path


def test_webhook(receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    hook = channel({"webhook": {"url": receiver.url, "secret": "${HOOK_SECRET}", "bearer_token": "t0ken"}})
    hook.send(told())
    posted = receiver.next()
    assert posted.headers["Authorization"] == "Bearer t0ken"
    moment, _, signed = posted.headers["X-Trilens-Signature"].removeprefix("t=").partition(",v1=")
    digest = hmac.new(b"s3cret", f"{moment}.".encode() + posted.body, hashlib.sha256).hexdigest()
    assert signed == digest
    message = posted.json
    assert {name: message[name] for name in ("version", "status", "receiver", "truncatedAlerts")} == {
        "version": "4",
        "status": "firing",
        "receiver": "ops",
        "truncatedAlerts": 0,
    }
    assert message["groupLabels"] == {"incident": "i1"}
    assert (message["commonLabels"]["severity"], message["trilens"]["severity"]) == ("warning", "critical")
    assert "alertname" not in message["commonLabels"]
    assert [one["labels"]["alertname"] for one in message["alerts"]] == ["GpuHot", "SlowJob"]
    assert message["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
    assert message["trilens"]["lost_quanta"] == 12_340_000_000
    hook.send(told(resolved(HOT), Occasion.RESOLVED))
    message = receiver.next().json
    assert (message["status"], message["alerts"][1]["status"]) == ("resolved", "resolved")
    assert message["alerts"][0]["endsAt"] == "2027-01-15T08:00:00Z"


def test_a_test_says_so(receiver: HttpReceiver) -> None:
    for kind in ({"slack": {"url": receiver.url}}, {"webhook": {"url": receiver.url}}):
        channel(kind).test()
        assert "nothing is wrong" in receiver.next().body.decode()
    channel({"pagerduty": {"url": receiver.url, "routing_key": "k"}}).test()
    trigger, resolve = receiver.next().json, receiver.next().json
    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"]


@pytest.mark.parametrize(
    ("status", "headers", "error", "wait_s"),
    [
        (400, {}, NotificationRefused, None),
        (404, {}, NotificationRefused, None),
        (302, {"Location": "/"}, NotificationRefused, None),
        (429, {"Retry-After": "17"}, ReceiverAway, 17.0),
        (429, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, ReceiverAway, 0.0),
        (503, {"Retry-After": "soon"}, ReceiverAway, None),
        (408, {}, ReceiverAway, None),
    ],
)
def test_what_an_answer_means(
    receiver: HttpReceiver,
    status: int,
    headers: dict[str, str],
    error: type[DeliveryError],
    wait_s: float | None,
) -> None:
    receiver.answers.append((status, headers, b"no such http://me:pass@there"))
    with pytest.raises(error, match=f"HTTP {status}: no such http://<secret>@there") as raised:
        channel({"slack": {"url": receiver.url}}).send(told())
    receiver.next()
    assert getattr(raised.value, "wait_s", None) == wait_s


@pytest.mark.parametrize("said", [b"", b"\n", b'{"status":"success"}'])
def test_an_alertmanager_has_taken_alerts_where_it_says_nothing_or_json(
    receiver: HttpReceiver, said: bytes
) -> None:
    receiver.answers.append((200, {}, said))
    channel({"alertmanager": {"url": receiver.url}}).send([b"{}"])
    assert receiver.next().json == [{}]


@pytest.mark.parametrize("said", [b"<html>please log in</html>", b"\xff{\x00]<!nu"])
def test_who_answers_200_and_is_no_alertmanager_has_taken_nothing(
    receiver: HttpReceiver, said: bytes
) -> None:
    """A proxy with a page to log in at, say. It may be gone in a minute, so it is sent again."""
    receiver.answers.append((200, {"Content-Type": "application/json"}, said))
    with pytest.raises(ReceiverAway, match="it answers as no Alertmanager does: '"):
        channel({"alertmanager": {"url": receiver.url}}).send([b"{}"])
    receiver.next()


@pytest.mark.parametrize(
    "said", [b" ok\n", b'{"ok": true}', b'{"success": true}', b'{"result": "success", "msg": ""}']
)
def test_what_slack_and_those_like_it_say_to_a_message(receiver: HttpReceiver, said: bytes) -> None:
    receiver.answers.append((200, {}, said))
    channel({"slack": {"url": receiver.url}}).send(told())  # it would raise
    assert "blocks" in receiver.next().json


LOGIN = b"<html>please log in at http://me:pass@there</html>"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Slack", LOGIN),
        ("Slack", b""),
        ("Slack", b'{"ok": false, "error": "channel_not_found"}'),
        ("Slack", b'{"status": "success"}'),
        ("PagerDuty", LOGIN),
        ("PagerDuty", b"ok"),
        ("PagerDuty", b'{"status": "invalid event"}'),
        ("PagerDuty", b'["status", "success"]'),
        ("PagerDuty", b'{"status": "\xff"}'),
        ("Slack", b"[" * 60_000),
    ],
)
def test_who_answers_2xx_in_other_words_has_taken_no_message(
    receiver: HttpReceiver, kind: str, said: bytes
) -> None:
    receiver.answers.append((202, {"Content-Type": "application/json"}, said))
    settings = {
        "Slack": {"slack": {"url": receiver.url}},
        "PagerDuty": {"pagerduty": {"url": receiver.url, "routing_key": "k"}},
    }
    with pytest.raises(ReceiverAway, match=f"it answers as no {kind} does: '") as raised:
        channel(settings[kind]).send(told())
    assert "pass" not in raised.value.message
    assert len(raised.value.message) < 150
    receiver.next()


def test_a_webhook_may_say_what_it_likes_and_leads_nowhere_else(receiver: HttpReceiver) -> None:
    hook = channel({"webhook": {"url": receiver.url, "bearer_token": "t0ken"}})
    receiver.answers.append((200, {}, LOGIN))
    hook.send(told())
    receiver.next()
    with HttpReceiver() as other:
        for status in (301, 302, 307, 308):
            receiver.answers.append((status, {"Location": other.url}, b""))
            with pytest.raises(NotificationRefused, match=f"HTTP {status}"):
                hook.send(told())
            receiver.next()
        assert other.posted.empty()


def test_nobody_there() -> None:
    with pytest.raises(ReceiverAway, match="refused"):
        channel({"webhook": {"url": "http://127.0.0.1:9/"}}).send(told())


def test_one_that_does_not_answer_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(ReceiverAway, match="timed out"):
            channel({"webhook": {"url": address, "timeout": "50ms"}}).send(told())


@pytest.mark.parametrize(
    "said",
    [(HEAD, b"x"), (b"", b"HTTP/1.1 102 Processing\r\n\r\n"), (HEAD + b"Content-Length: 9999\r\n\r\n", b"x")],
    ids=["headers", "interim answers", "body"],
)
def test_one_that_answers_drop_by_drop_is_given_up_in_time(said: tuple[bytes, bytes]) -> None:
    with Dripping(*said) as server:
        with pytest.raises(ReceiverAway, match="timed out"):
            channel({"slack": {"url": server.url, "timeout": "200ms"}}).send(told())
        assert server.is_given_up()


def test_each_message_over_one_connection_has_the_whole_time(receiver: HttpReceiver) -> None:
    class Keeping(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(0.4)
            callers.append(self.client_address[1])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    callers: list[int] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Keeping) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        slack = channel({"slack": {"url": address, "timeout": "1s"}})
        for _ in range(3):
            slack.send(told())
        slack.close()
        server.shutdown()
    assert len(callers) == 3
    assert len(set(callers)) == 1


def test_no_more_of_an_answer_is_read_than_anybody_looks_at() -> None:
    """A webhook that has taken it may go on talking for ever."""
    with Dripping(HEAD + b"\r\n", b"x" * 65_536, every_s=0.0) as server:
        channel({"webhook": {"url": server.url}}).send(told())
        assert server.is_given_up()


def test_a_secret_file_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gone"):
        channel({"slack": {"url_file": str(tmp_path / "gone")}}).send(told())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def test_mail(certificates: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with SmtpServer(tls) as server:
        settings = {
            "server": f"localhost:{server.port}",
            "from": "trilens@example.com",
            "to": ["a@example.com", "b@example.com"],
            "username": "me",
            "password": "right",
            "ca_file": str(certificates / "ca.pem"),
        }
        mail, other = channels({"mail": settings})
        other.send(told())
        assert server.next().to == ["b@example.com"]
        mail.send(told())
        first = server.next()
        assert (first.is_encrypted, first.user) == (True, "me")
        assert (first.sender, first.to) == ("trilens@example.com", ["a@example.com"])
        message = message_from_string(first.text, policy=policy.default)
        assert message["Subject"] == "[critical] GPU 3 of gpu-7 throttles <at 91 C>"
        assert message["To"] == "a@example.com, b@example.com"  # who else knows
        text = message.get_content().replace("\r\n", "\n")
        assert "do now:   Drain gpu-7 & see its fans.\n" in text
        assert "lost:     12.34 USD\n" in text
        assert "- SlowJob: llm is 31 % slower\n" in text
        mail.send(told(resolved(HOT), Occasion.RESOLVED))
        answer = message_from_string(server.next().text, policy=policy.default)
        assert answer["In-Reply-To"] == message["Message-ID"]  # one conversation
        assert answer["Subject"].startswith("[resolved]")
        german = replace(HOT, title="GPU 3: Lüfter steht, 91 °C")
        mail.send(told(german))
        raw = server.next().text
        assert raw.isascii()  # as a server without 8BITMIME takes it, too
        assert message_from_string(raw, policy=policy.default)["Subject"] == f"[critical] {german.title}"
        assert "Lüfter" in message_from_string(raw, policy=policy.default).get_content()
        server.refusals = [b"550 nobody here\r\n"]
        with pytest.raises(NotificationRefused, match="550 nobody here"):
            mail.send(told())
        server.refusals = [b"451 come again\r\n"]
        with pytest.raises(ReceiverAway, match="451 come again"):
            mail.send(told())
        with pytest.raises(NotificationRefused, match="535 wrong password"):
            channels({"mail": {**settings, "password": "wrong"}})[0].send(told())
        untrusted = {name: value for name, value in settings.items() if name != "ca_file"}
        with pytest.raises(ReceiverAway, match="certificate"):
            channels({"mail": untrusted})[0].send(told())


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ((b"220 he", b"r"), "timed out"),
        ((b"", b"220-here\r\n"), "timed out"),
        ((b"220 here\r\n", b"250-" + b"x" * 4000 + b"\r\n"), "it says more than 64 KiB"),
    ],
    ids=["a line", "lines", "more than fits"],
)
def test_a_mail_server_that_talks_without_end_is_given_up_in_time(
    said: tuple[bytes, bytes], match: str
) -> None:
    with Dripping(*said) as server:
        address = {"server": f"127.0.0.1:{server.port}", "from": "t@example.com", "to": "a@example.com"}
        with pytest.raises(ReceiverAway, match=match):
            channel({"mail": {**address, "timeout": "150ms" if match == "timed out" else "10s"}}).send(told())
        assert server.is_given_up()


def test_mail_is_not_sent_in_the_clear_unless_asked() -> None:
    with SmtpServer() as server:
        settings = {"server": f"127.0.0.1:{server.port}", "from": "t@example.com", "to": "a@example.com"}
        with pytest.raises(NotificationRefused, match="STARTTLS"):
            channel({"mail": settings}).send(told())
        channel({"mail": {**settings, "starttls": False}}).send(told())
        assert server.next().is_encrypted is False
