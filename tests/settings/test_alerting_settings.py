"""Receivers and routes: what is taken, what is refused and in which words, and that secrets stay secret."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from trilens.alert.delivery.plan import plan_of
from trilens.model.errors import ConfigError
from trilens.model.matcher import Matcher
from trilens.settings.alerting import InhibitionSettings, RouteSettings
from trilens.settings.endpoint import EndpointSettings
from trilens.settings.load import load_settings, validate
from trilens.settings.matchers import read_matcher
from trilens.settings.quiet import read_quiet
from trilens.settings.receivers import ReceiverSettings

DOCS = Path(__file__).parents[2] / "docs"
HOOK = {"webhook": {"url": "http://127.0.0.1:9/"}}
MAIL = {"server": "smtp:25", "from": "a@b", "to": ["c@d"]}


@pytest.mark.parametrize(
    ("alerting", "complaint"),
    [
        ({"receivers": {"a": {}}}, "alerting.receivers.a: a receiver is exactly one of alertmanager, slack"),
        ({"receivers": {"a": {"slak": {}}}}, "did you mean 'alerting.receivers.a.slack'"),
        ({"receivers": {"a b": HOOK}}, "'a b' is not a receiver's name"),
        ({"receivers": {"a": {"slack": {}}}}, "alerting.receivers.a.slack: give url or url_file"),
        ({"receivers": {"a": {"slack": {"url": "hooks.example"}}}}, "is not an http:// or https:// URL"),
        ({"receivers": {"a": {"slack": {"url": "${NOT_THERE}"}}}}, "the environment has no NOT_THERE"),
        ({"receivers": {"a": {"pagerduty": {"routing_key": "k", "routing_key_file": "f"}}}}, "not both"),
        ({"receivers": {"a": {"webhook": {}}}}, "give url or url_file"),
        ({"receivers": {"a": {"alertmanager": {}}}}, "give url, or urls for several"),
        ({"receivers": {"a": {"alertmanager": {"urls": ["http://a", "http://a/"]}}}}, "given twice"),
        ({"receivers": {"a": {"mail": {**MAIL, "server": "smtp"}}}}, "'smtp' is not HOST:PORT"),
        ({"receivers": {"a": {"mail": {**MAIL, "to": ["nobody"]}}}}, "'nobody' is not an address"),
        ({"receivers": {"a": {"mail": {**MAIL, "username": "me"}}}}, "username and a password go together"),
        (
            {"receivers": {"a": {"mail": {**MAIL, "username": "me", "password": "p", "starttls": False}}}},
            "for all to read",
        ),
        ({"receivers": {"a": HOOK}, "routes": [{"to": ["b"]}]}, "there is no receiver 'b' (there are: a)"),
        ({"receivers": {"a": HOOK}, "routes": [{"matchers": "x=y", "to": "a"}]}, "the last one must have no"),
        ({"routes": [{"matchers": ["team vision"]}, {}]}, "'team vision' is not a matcher"),
        ({"routes": [{"quiet": "25:00-26:00"}]}, "there is no such time of day"),
        ({"routes": [{"quiet": ["mon-fro"]}]}, "'fro' is no day"),
        ({"routes": [{"quiet": ["at night"]}]}, "'at night' is not a time"),
        ({"time_zone": "Berlin"}, "'Berlin' is not a time zone"),
        ({"inhibit": [{"source": ["a=b"], "target": []}]}, "need at least one matcher each"),
        (
            {"receivers": {"am": {"alertmanager": {"url": "http://a"}}}, "routes": [{"to": ["am"]}]},
            "gets all alerts and has routes of its own",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(alerting: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        validate({"alerting": alerting})
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("sat-sun", list(range(120, 168))),
        ("fri 22:00-02:00", [118, 119, 120, 121]),
        ("sun-mon 23:00 - 01:00", [0, 23, 24, 167]),
        ("0:00-24:00", list(range(168))),
        ("TUE 10:00-11:00", [34]),
    ],
)
def test_quiet_times(text: str, hours: list[int]) -> None:
    """By the hours of a week."""
    quiet, monday = read_quiet(text), datetime(2026, 11, 16, tzinfo=UTC)
    assert [hour for hour in range(168) if quiet.covers(monday + timedelta(hours=hour))] == hours


def test_an_alertmanager_needs_rules_that_are_evaluated_here() -> None:
    alerting = {"receivers": {"am": {"alertmanager": {"url": "http://a"}}}}
    with pytest.raises(ConfigError, match="no rules are evaluated here"):
        validate({"alerting": alerting, "source": {"url": "http://prometheus"}})


@pytest.mark.parametrize(
    ("text", "matcher"),
    [
        ('team="vision"', Matcher("team", "=", "vision")),
        ("team = vision", Matcher("team", "=", "vision")),
        ('node=~"gpu-[0-9]+\\.lab"', Matcher("node", "=~", "gpu-[0-9]+\\.lab")),
        ('a!~"say \\"no\\", {never}"', Matcher("a", "!~", 'say "no", {never}')),
        ('team=""', Matcher("team", "=", "")),
        ("team!=", Matcher("team", "!=", "")),
    ],
)
def test_matchers(text: str, matcher: Matcher) -> None:
    assert read_matcher(text) == matcher


@pytest.mark.parametrize("text", ["", "team", "=x", '1a="b"', 'a="b', 'a="b"c', "a==b,c==", '{a="b"}'])
def test_what_is_no_matcher(text: str) -> None:
    with pytest.raises(ValueError, match="is not a matcher"):
        read_matcher(text)


def test_secrets_come_from_files_beside_the_settings_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PD_KEY", "pagerduty-s3cret")
    (tmp_path / "slack-url").write_text("https://hooks.example/s3cret\n", encoding="utf-8")
    file = tmp_path / "trilens.yaml"
    file.write_text(
        "alerting: {receivers: {a: {slack: {url_file: slack-url}}, "
        "b: {pagerduty: {routing_key: '${PD_KEY}'}}}}",
        encoding="utf-8",
    )
    settings = load_settings(file, environ={})
    slack, pagerduty = plan_of(settings).outlets
    assert slack.where == "hooks.example"
    receiver = settings.alerting.receivers["b"].pagerduty
    assert receiver is not None
    assert receiver.read_key() == "pagerduty-s3cret"
    assert "s3cret" not in f"{settings!r} {settings.model_dump_json()} {slack} {pagerduty}"


def test_every_setting_of_a_receiver_and_of_a_route_is_documented() -> None:
    written = (DOCS / "delivery.md").read_text(encoding="utf-8")
    groups = [*ReceiverSettings.model_fields.values(), RouteSettings, InhibitionSettings]
    for group in groups:
        model = group if isinstance(group, type) else next(x for x in get_args(group.annotation) if x)
        for name, field in model.model_fields.items():
            if name not in EndpointSettings.model_fields:
                assert re.search(rf"\b{field.alias or name}\b", written), f"{model.__name__}.{name}"


def test_every_example_of_the_docs_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGERDUTY_KEY", "BOT_TOKEN"):
        monkeypatch.setenv(name, "x")
    blocks = (DOCS / "delivery.md").read_text(encoding="utf-8").split("```yaml\n")[1:]
    kinds = set()
    for block in blocks:
        settings = validate(yaml.safe_load(block.partition("```")[0]))
        kinds |= {outlet.kind for outlet in plan_of(settings).outlets}
    assert kinds == {"alertmanager", "slack", "pagerduty", "webhook", "mail"}
