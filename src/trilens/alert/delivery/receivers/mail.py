"""Mail: plain text, the messages of one incident as one conversation."""

from __future__ import annotations

import smtplib
import time
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from typing import TYPE_CHECKING

from trilens.alert.delivery.notice import Occasion, decode
from trilens.alert.delivery.receivers.smtp import TimelySmtp, TimelySmtpTls
from trilens.alert.delivery.receivers.wording import headline, plain_text, test_notice
from trilens.model.errors import NotificationRefused, ReceiverAway

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.notice import Notice
    from trilens.settings.receivers import MailSettings


class MailChannel:
    """To one address. A connection for each message: servers close those that are idle."""

    def __init__(self, settings: MailSettings, address: str) -> None:
        self._settings = settings
        self._address = address

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._tell(decode(body))

    def test(self) -> None:
        self._tell(test_notice())

    def close(self) -> None:
        pass

    def _tell(self, notice: Notice) -> None:
        message = mail_message(notice, self._settings.sender, self._settings.to)
        password = self._settings.read_password()
        try:
            with self._connected() as server:
                if self._settings.username is not None and password is not None:
                    server.login(self._settings.username, password)
                server.send_message(message, to_addrs=[self._address])
        except smtplib.SMTPRecipientsRefused as e:
            raise _of_code(*e.recipients[self._address]) from e
        except smtplib.SMTPNotSupportedError as e:
            raise NotificationRefused(str(e)) from e
        except smtplib.SMTPResponseException as e:
            raise _of_code(e.smtp_code, e.smtp_error) from e
        except (smtplib.SMTPException, OSError) as e:
            raise ReceiverAway(str(e) or type(e).__name__) from e

    def _connected(self) -> smtplib.SMTP:
        host, port = self._settings.address
        step_s = self._settings.timeout.total_seconds()
        if self._settings.tls:
            return TimelySmtpTls(host, port, step_s, context=self._settings.tls_context())
        server = TimelySmtp(host, port, step_s)
        try:
            if self._settings.starttls:
                server.starttls(context=self._settings.tls_context())
        except BaseException:
            server.close()
            raise
        return server


def mail_message(notice: Notice, sender: str, to: Sequence[str]) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = " ".join(headline(notice).split())
    message["From"] = sender
    message["To"] = ", ".join(to)
    message["Date"] = format_datetime(localtime())
    domain = sender.rpartition("@")[2]
    first = f"<{notice.incident}@{domain}>"
    if notice.occasion in (Occasion.OPENED, Occasion.TEST):
        message["Message-ID"] = first
    else:
        message["Message-ID"] = f"<{notice.incident}.{time.time_ns()}@{domain}>"
        message["In-Reply-To"] = message["References"] = first
    message["Auto-Submitted"] = "auto-generated"
    message["X-Trilens-Incident"] = notice.incident
    message.set_content(plain_text(notice), cte="quoted-printable")  # not every server takes 8 bits
    return message


def _of_code(code: int, reason: bytes | str) -> ReceiverAway | NotificationRefused:
    """A 4xx of mail servers is what a 5xx is on the web: it may go well later."""
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    told = f"{code} {text}"
    return NotificationRefused(told) if code >= 500 else ReceiverAway(told)
