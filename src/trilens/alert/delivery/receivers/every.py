"""All kinds of receivers: which outlets one has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trilens.alert.delivery.outlet import Outlet
from trilens.alert.delivery.receivers.alertmanager import AT_ONCE, AlertmanagerChannel
from trilens.alert.delivery.receivers.mail import MailChannel
from trilens.alert.delivery.receivers.pagerduty import PagerdutyChannel
from trilens.alert.delivery.receivers.slack import SlackChannel
from trilens.alert.delivery.receivers.webhook import WebhookChannel
from trilens.model.errors import ConfigError
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    from trilens.settings.receivers import ReceiverSettings, SlackSettings, WebhookSettings


def outlets_of(name: str, settings: ReceiverSettings, link: str) -> list[Outlet]:
    """`link` is the address of this server, for people."""
    if (alertmanager := settings.alertmanager) is not None:
        return [
            Outlet(
                f"{name} {without_passwords(url)}",
                name,
                "alertmanager",
                without_passwords(url),
                AT_ONCE,
                alertmanager,
                partial(AlertmanagerChannel, alertmanager, url),
            )
            for url in alertmanager.addresses
        ]
    if (slack := settings.slack) is not None:
        return [Outlet(name, name, "slack", _host(slack), 1, slack, partial(SlackChannel, slack))]
    if (pagerduty := settings.pagerduty) is not None:
        where = without_passwords(pagerduty.url)
        return [Outlet(name, name, "pagerduty", where, 1, pagerduty, partial(PagerdutyChannel, pagerduty))]
    if (webhook := settings.webhook) is not None:
        where = _host(webhook) if webhook.url is None else _shown(webhook.url)
        return [
            Outlet(name, name, "webhook", where, 1, webhook, partial(WebhookChannel, webhook, name, link))
        ]
    mail = settings.mail
    assert mail is not None
    return [  # an address that is refused, or to be tried again, is no reason to write to the others twice
        Outlet(
            f"{name} {address}",
            name,
            "mail",
            f"{address} by {mail.server}",
            1,
            mail,
            partial(MailChannel, mail, address),
        )
        for address in mail.to
    ]


def _shown(url: str) -> str:
    """Tokens stand in queries, too."""
    return without_passwords(urlsplit(url)._replace(query="", fragment="").geturl())


def _host(settings: SlackSettings | WebhookSettings) -> str:
    """The rest of the URL is a secret."""
    try:
        return urlsplit(settings.read_url()).netloc.rpartition("@")[2]
    except ConfigError:
        return str(settings.url_file)
