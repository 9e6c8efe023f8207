"""Whether what changed of who may come in, and of the certificate, was taken over; and whether it is known
from where somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.serve.checkup.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence


def access_sees(evidence: Evidence) -> str:
    told = evidence.readiness
    return "something is as it was before" if "access" in told or "certificate" in told else "up to date"


def who_comes_in(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.readiness.get("access", {}).get("troubles", []):
        means = "who may come in stays as it was known before: new tokens are refused, ended ones let in"
        remedy = "correct what is named there; it is looked at again every few seconds"
        yield Finding("who_comes_in", True, trouble, means, remedy)


def unnamed_proxy(evidence: Evidence) -> Iterator[Finding]:
    if (peer := evidence.readiness.get("proxy", {}).get("unnamed")) is not None:
        what = f"programs send through a proxy at {peer}, which access.proxy does not name"
        means = "all who come through it have its address: none can tell where its own metrics are"
        remedy = f"access.proxy: {{trusted: [{peer}], user_header: null}}, where it sets X-Forwarded-For"
        yield Finding("unnamed_proxy", False, what, means, remedy)


def proxy_without_secret(evidence: Evidence) -> Iterator[Finding]:
    if (peer := evidence.readiness.get("proxy", {}).get("without_secret")) is not None:
        what = f"{peer}, at an address of access.proxy.trusted, does not send the secret, or another one"
        means = "nobody comes in through it, and none of its headers is believed: they get 401"
        remedy = "let it set access.proxy.secret_header to what access.proxy.secret_file held at the start"
        yield Finding("proxy_without_secret", False, what, means, remedy)


def certificate(evidence: Evidence) -> Iterator[Finding]:
    if (told := evidence.readiness.get("certificate")) is not None:
        remedy = "put a certificate and its key there that fit; they are taken over within seconds"
        yield Finding(
            "certificate", True, told["trouble"], "the old certificate stays, until it ends", remedy
        )
