"""`trilens alerts`, `receivers` and `silences`, and their APIs; then all of it through a real server."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from command_here import trilens_here
from memory_api import Api, running
from receivers_at_work import Alertmanager, HttpReceiver, incident, plan
from servers import free_port, until
from trilens.cli.checkup.layers import examine_server
from trilens.cli.client import Client
from trilens.serve.delivery import DeliveryKeeper
from trilens_process import server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AWAY = "http://127.0.0.1:9/hook"


@pytest.fixture(scope="module")
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as one:
        yield one


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, receiver: HttpReceiver) -> Iterator[tuple[str, Any]]:
    receivers = {"chat": {"slack": {"url": receiver.url}}, "away": {"webhook": {"url": AWAY}}}
    alerting = {"receivers": receivers, "group_wait": "0s"}
    keeper = DeliveryKeeper(plan(alerting), tmp_path_factory.mktemp("delivery") / "queue.sqlite")
    keeper.start()
    with running(Api(delivery=keeper).build()) as url:
        yield url, keeper
    keeper.stop()


def test_a_test_message_by_command(api: tuple[str, Any], receiver: HttpReceiver) -> None:
    url, _ = api
    said = trilens_here("receivers", "test", "chat", "--server", url)
    assert (said.returncode, said.stdout) == (
        0,
        f"chat (127.0.0.1:{receiver.port}): taken\n",
    )  # the rest is a secret
    assert "nothing is wrong" in receiver.next().body.decode()
    said = trilens_here("receivers", "test", "away", "--json", "--server", url)
    (tried,) = json.loads(said.stdout)
    assert (said.returncode, tried["ok"]) == (1, False)
    assert "refused" in tried["error"]
    said = trilens_here("receivers", "test", "nobody", "--server", url)
    assert (said.returncode, "there are: chat, away" in said.stderr) == (2, True)


def test_receivers_and_what_is_wrong_with_them(api: tuple[str, Any], receiver: HttpReceiver) -> None:
    url, keeper = api
    keeper.take([incident("shown")])
    receiver.next()

    def told() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{url}/api/receivers").json()["data"]
        return found

    until(lambda: {one["state"] for one in told()} == {"ok", "failing"}, "one is well, the other is not")
    said = trilens_here("receivers", "--server", url)
    assert said.returncode == 1
    title, chat, away = said.stdout.splitlines()
    assert title.split()[:4] == ["receiver", "kind", "where", "state"]
    assert chat.split()[:4] == ["chat", "slack", f"127.0.0.1:{receiver.port}", "ok"]
    assert away.split()[:4] == ["away", "webhook", AWAY, "failing"]
    assert "refused" in away
    with Client(url) as client:
        (delivery,) = [one for one in examine_server(client) if one.layer == "delivery"]
    (trouble,) = delivery.found
    assert trouble.what.startswith(f"away (webhook, {AWAY}): ")
    assert "messages that wait: 1" in trouble.means


def test_silences(api: tuple[str, Any]) -> None:
    url, _ = api
    wanted = ["workload=llm", 'node=~"gpu-1.*"', "--comment", "new fans", "--for", "2h", "--author", "ada"]
    said = trilens_here("silences", "add", *wanted, "--server", url)
    assert said.returncode == 0, said.stderr
    name = said.stdout.split()[0]
    said = trilens_here("silences", "list", "--server", url)
    assert [word in said.stdout for word in (name, "active", "workload=llm", "ada", "new fans")] == [True] * 5
    assert trilens_here("silences", "expire", name, "--server", url).stdout == f"{name} is over\n"
    assert trilens_here("silences", "list", "--server", url).stderr == "nothing is silenced\n"
    (kept,) = json.loads(trilens_here("silences", "list", "--all", "--json", "--server", url).stdout)
    assert (kept["id"], kept["state"]) == (name, "expired")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a b", "--comment", "x"], "is not a matcher"),
        (['a=~"("', "--comment", "x"], "is not a regular expression"),
        (['a=~".*"', "--comment", "x"], "would take everything"),
        (["a=b", "--comment", "x", "--until", "-1h"], "ends after it begins"),
        (["a=b", "--comment", "x", "--until", "now", "--for", "1h"], "not both"),
        (["a=b", "--comment", ""], "needs a comment"),
    ],
    ids=["matcher", "regex", "everything", "past", "both", "comment"],
)
def test_what_is_no_silence(api: tuple[str, Any], arguments: list[str], complaint: str) -> None:
    said = trilens_here("silences", "add", *arguments, "--server", api[0])
    assert said.returncode == 2
    assert complaint in said.stderr


def test_a_body_that_is_no_silence(api: tuple[str, Any]) -> None:
    endless = b'{"matchers": ["a=b"], "to_ms": 99999999999999999999, "author": "me", "comment": "why"}'
    unknown = b'{"matchers": "a=b", "to_ms": 1, "author": "", "comment": "", "x": 1}'
    for body in (b"", b"{}", unknown, endless):
        answer = httpx.post(f"{api[0]}/api/silences", content=body)
        assert answer.status_code == 400
        assert "not a silence" in answer.json()["error"]


RULES = """
groups:
- name: here
  interval: 1s
  rules:
  - alert: NodeDown
    expr: vector(1)
    labels: {severity: critical, layer: platform, node: gpu-1}
    annotations: {summary: gpu-1 is down, action: Drain it.}
"""
SETTINGS = """
rules: {{builtin: false, files: [rules.yml]}}
alerting:
  group_wait: 0s
  receivers:
    hook: {{webhook: {{url: {hook}, secret_file: secret}}}}
    alertmanager: {{alertmanager: {{url: {alertmanager}}}}}
"""


def test_a_server_that_is_killed_tells_when_it_is_back(tmp_path: Path) -> None:
    """A rule fires, becomes an incident, and is told through a kill of the whole server, once."""
    receiver, alertmanager = HttpReceiver(), Alertmanager(tmp_path, free_port(), free_port())
    (tmp_path / "rules.yml").write_text(RULES, encoding="utf-8")
    (tmp_path / "secret").write_text("s3cret", encoding="utf-8")
    settings = SETTINGS.format(hook=receiver.url, alertmanager=alertmanager.url)
    (tmp_path / "trilens.yaml").write_text(settings, encoding="utf-8")
    arguments = ["--config", str(tmp_path / "trilens.yaml")]
    with server(tmp_path, *arguments) as (url, process):

        def waiting() -> list[int]:
            return [one["waiting"] for one in httpx.get(f"{url}/api/receivers").json()["data"]]

        until(lambda: waiting() == [1, 1], "the incident waits for its receiver, the alert for the other")
        said = trilens_here("alerts", "--server", url)
        assert said.stdout.splitlines()[1].split()[:3] == ["critical", "NodeDown", "firing"]
        assert "gpu-1 is down" in said.stdout
        less = trilens_here("alerts", "--severity", "info", "--server", url)
        assert (less.returncode, less.stderr) == (0, "no alert fires\n")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with receiver, alertmanager.running(), server(tmp_path, *arguments) as (url, _):
        told = receiver.next().json
        assert (told["trilens"]["occasion"], told["trilens"]["title"]) == ("opened", "gpu-1 is down")
        assert told["trilens"]["labels"]["node"] == "gpu-1"
        name = told["trilens"]["incident"]

        def notified() -> bool:
            known = httpx.get(f"{url}/api/incidents").json()["data"]
            return [one["id"] for one in known if one["notified_ms"] is not None] == [name]

        until(notified, "the incident says that somebody was told")
        assert receiver.posted.empty()
        until(lambda: alertmanager.alerts() == {"gpu-1": "active"}, "the Alertmanager has the alert")

        def fires() -> bool:
            alerts = httpx.get(f"{url}/api/v1/alerts").json()["data"]["alerts"]
            return [one["state"] for one in alerts] == ["firing"]

        until(fires, "the rule was evaluated again")
        (tmp_path / "rules.yml").write_text("groups: []", encoding="utf-8")
        httpx.post(f"{url}/-/reload").raise_for_status()
        until(lambda: alertmanager.alerts() == {}, "and hears that it is over")
        known = httpx.get(f"{url}/api/v1/alertmanagers").json()["data"]["activeAlertmanagers"]
        assert known == [{"url": f"{alertmanager.url}/api/v2/alerts"}]
