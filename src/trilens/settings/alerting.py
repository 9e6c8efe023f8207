"""Whom incidents and alerts are told to, when, and when not."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from trilens.settings.duration import Duration, Interval
from trilens.settings.group import Group, Texts
from trilens.settings.matchers import MatcherTexts
from trilens.settings.quiet import QuietTexts, TimeZone
from trilens.settings.receivers import ReceiverSettings

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # it stands in paths of the API


def _are_names(receivers: dict[str, ReceiverSettings]) -> dict[str, ReceiverSettings]:
    for name in receivers:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a receiver's name: letters, digits, `.`, `_` and `-`")
    return receivers


class RouteSettings(Group):
    """Incidents of which a symptom has these labels go to these receivers."""

    matchers: MatcherTexts = ()  # all of them hold; none: everything
    to: Texts = ()  # names of receivers; none: nobody is told
    keep_on: bool = Field(default=False, alias="continue")  # look at the routes after it, too
    group_wait: Duration | None = None
    group_interval: Interval | None = None
    repeat_interval: Interval | None = None
    quiet: QuietTexts = ()  # when nobody is told by it, in `time_zone`


class InhibitionSettings(Group):
    """While there is a symptom that `source` matches, nobody is told of those that `target` matches."""

    source: MatcherTexts
    target: MatcherTexts
    equal: Texts = ()  # both have the same values of these labels

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.source or not self.target:
            raise ValueError("source and target need at least one matcher each")
        return self


class AlertingSettings(Group):
    """A route is `{matchers: [...], to: [...]}`; the first that matches counts, and with `continue: true`
    those after it, too. A secret may be written as `${NAME}`, which is read from the environment. Taken over
    on SIGHUP or a POST to `/-/reload`."""

    receivers: Annotated[dict[str, ReceiverSettings], AfterValidator(_are_names)] = Field(
        default_factory=dict, description="Who can be told, by name: [delivery.md](delivery.md)."
    )
    routes: tuple[RouteSettings, ...] = Field(
        default=(), description="Who is told of what; all receivers of everything unless given."
    )
    inhibit: tuple[InhibitionSettings, ...] = Field(
        default=(), description="Which symptoms are not told of while there are others."
    )
    group_wait: Duration = Field(
        default=timedelta(seconds=10),
        description="How long a new incident is held back, so that more of its symptoms are told with it.",
    )
    group_interval: Interval = Field(
        default=timedelta(minutes=1), description="The least time between two messages of one incident."
    )
    repeat_interval: Interval = Field(
        default=timedelta(hours=4),
        description="An incident that lasts and that nobody acknowledged is told again after this time.",
    )
    time_zone: TimeZone = Field(default="UTC", description="Of the `quiet` times of routes.")
    max_waiting: int = Field(
        default=10_000,
        ge=100,
        description="Messages kept for a receiver that is away; beyond it the oldest are dropped, those "
        "first that are over.",
    )

    @model_validator(mode="after")
    def _routes_lead_somewhere(self) -> Self:
        for place, route in enumerate(self.routes):
            for name in route.to:
                if name not in self.receivers:
                    known = ", ".join(self.receivers) or "none"
                    raise ValueError(
                        f"routes[{place}].to: there is no receiver {name!r} (there are: {known})"
                    )
                if self.receivers[name].kind == "alertmanager":
                    raise ValueError(
                        f"routes[{place}].to: {name!r} is an Alertmanager, which gets all alerts and has "
                        "routes of its own; leave it out"
                    )
        if self.routes and self.routes[-1].matchers:
            raise ValueError(
                "routes: the last one must have no matchers, for it takes what no other took; "
                "`to: []` tells nobody"
            )
        return self
