"""Receivers, routes and inhibitions as they are set, ready to be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.alert.delivery.inhibition import Inhibition
from trilens.alert.delivery.matching import read_matchers
from trilens.alert.delivery.routes import Route, Timing
from trilens.model.errors import ConfigError
from trilens.settings.duration import in_ms
from trilens.settings.quiet import read_quiet, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import tzinfo

    from trilens.alert.delivery.matching import Matchers
    from trilens.alert.delivery.outlet import Outlet
    from trilens.model.labels import Labels
    from trilens.settings.alerting import RouteSettings
    from trilens.settings.receivers import ReceiverSettings
    from trilens.settings.tree import Settings
    from trilens.settings.yaml_file import Place


class Plan(NamedTuple):
    outlets: tuple[Outlet, ...]
    routes: tuple[Route, ...]
    inhibitions: tuple[Inhibition, ...]
    max_waiting: int
    link: str  # what addresses of incidents begin with
    external_labels: Labels = ()  # added to alerts that go to an Alertmanager, as Prometheus does


def plan_of(settings: Settings, external_labels: Labels = ()) -> Plan:
    """Raises ConfigError."""
    alerting, place = settings.alerting, settings.alerting_place
    receivers = {name: one.beside(settings.base_dir) for name, one in alerting.receivers.items()}
    link = settings.server.links_begin
    timing = Timing(
        in_ms(alerting.group_wait), in_ms(alerting.group_interval), in_ms(alerting.repeat_interval)
    )
    zone = zone_of(alerting.time_zone)
    routes = [
        Route(
            _matchers(route.matchers, place / "routes" / number / "matchers"),
            route.to,
            _timing(route, timing, zone),
            route.keep_on,
        )
        for number, route in enumerate(alerting.routes)
    ]
    everyone = tuple(name for name, one in receivers.items() if one.alertmanager is None)
    inhibitions = [
        Inhibition(
            _matchers(one.source, place / "inhibit" / number / "source"),
            _matchers(one.target, place / "inhibit" / number / "target"),
            one.equal,
        )
        for number, one in enumerate(alerting.inhibit)
    ]
    return Plan(
        tuple(_outlets(receivers, link)),
        tuple(routes) or (Route((), everyone, timing),),
        tuple(inhibitions),
        alerting.max_waiting,
        link,
        external_labels,
    )


def _outlets(receivers: Mapping[str, ReceiverSettings], link: str) -> Iterator[Outlet]:
    if receivers:  # else nobody waits for an HTTP client to load
        from trilens.alert.delivery.receivers.every import outlets_of

        for name, one in receivers.items():
            yield from outlets_of(name, one, link)


def _matchers(texts: Sequence[str], place: Place) -> Matchers:
    try:
        return read_matchers(texts)
    except ValueError as e:
        raise ConfigError(f"{place}: {e}", where=place.where) from e


def _timing(route: RouteSettings, otherwise: Timing, zone: tzinfo) -> Timing:
    return Timing(
        otherwise.wait_ms if route.group_wait is None else in_ms(route.group_wait),
        otherwise.interval_ms if route.group_interval is None else in_ms(route.group_interval),
        otherwise.repeat_ms if route.repeat_interval is None else in_ms(route.repeat_interval),
        tuple(map(read_quiet, route.quiet)),
        zone,
    )
