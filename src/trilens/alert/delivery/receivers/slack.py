"""Slack, by an incoming webhook, and whatever takes the same (Mattermost, Rocket.Chat)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.alert.delivery.notice import decode
from trilens.alert.delivery.receivers.post import Poster, not_its_own, object_of
from trilens.alert.delivery.receivers.wording import few, followers, headline, test_notice, when, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.notice import Notice
    from trilens.settings.receivers import SlackSettings

_HEADER: Final = 150  # what Slack takes, in characters
_SECTION: Final = 3_000
_TAKEN: Final = (("ok", True), ("success", True), ("result", "success"))
_MARKS: Final = {
    "critical": ":red_circle:",
    "warning": ":large_orange_circle:",
    "info": ":large_blue_circle:",
}


class SlackChannel:
    def __init__(self, settings: SlackSettings) -> None:
        self._settings = settings
        self._poster = Poster(settings.timeout.total_seconds())

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._tell(decode(body))

    def test(self) -> None:
        self._tell(test_notice())

    def close(self) -> None:
        self._poster.close()

    def _tell(self, notice: Notice) -> None:
        said = self._poster.post(self._settings.read_url(), msgspec.json.encode(slack_message(notice)))
        if not _is_taken(said):
            raise not_its_own(said, "Slack")


def _is_taken(said: bytes) -> bool:
    """Slack and Mattermost say `ok`, Slack's workflows `{"ok": true}`, Rocket.Chat `{"success": true}`, Zulip
    `{"result": "success"}`."""
    told = object_of(said)
    return said.strip() == b"ok" or any(told.get(name) == word for name, word in _TAKEN)


def slack_message(notice: Notice) -> dict[str, Any]:
    """`text` is what a telephone shows; `blocks` what stands in the channel."""
    facts = {
        "Where": _code(where(notice)),
        "When": when(notice),
        "Do now": _escaped(notice.action) if not notice.is_resolved else "",
        "Lost so far": notice.lost or "",
        "Suffers": _escaped(", ".join(few(notice.workloads))),
    }
    body = "\n".join(f"*{name}:* {text}" for name, text in facts.items() if text)
    root = notice.root
    if root is not None and root.text != notice.title:
        body = f"{_escaped(root.text)}\n{body}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(headline(notice), _HEADER)}},
        _section(body),
    ]
    if following := followers(notice):
        blocks.append(_section("*What follows from it*\n" + "\n".join(f"• {_escaped(x)}" for x in following)))
    about = f"incident {notice.incident}"
    if notice.url:
        about = f"<{notice.url}|{about}>"
    mark = ":large_green_circle:" if notice.is_resolved else _MARKS.get(notice.severity, "")
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"{mark} {about}".strip()}]})
    return {"text": _cut(_escaped(headline(notice)), _SECTION), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, _SECTION)}}


def _escaped(text: str) -> str:
    """Else a name such as <!channel> would wake everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """As it is, in the one kind of quotes that Slack has for that."""
    return f"`{_escaped(text).replace('`', chr(39))}`" if text else ""


def _cut(text: str, most: int) -> str:
    """Not within an escape."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    start = kept.rfind("&", -len("&amp;"))
    return (kept if start < 0 or ";" in kept[start:] else kept[:start]) + "…"
