"""How servers of one Trilens know each other: the one that works shows the certificate that this one has.

They find each other by addresses, which no certificate names, so that very certificate is wanted and no other
of whoever signed it. When it is renewed, two servers do not have the new one at the same moment.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp

from trilens.settings.files import stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_OUTDATED_S: Final = 3_600.0  # a Secret is everywhere within minutes
_FIRST: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class _Known(NamedTuple):
    shown: aiohttp.Fingerprint
    replaced_s: float | None  # by a newer one; None as long as it is the newest


class SameCertificate:
    """Belongs to one event loop."""

    def __init__(self, file: Path | None) -> None:
        """None: they show none of their own, and what the machine trusts has to do."""
        self._file = file
        self._stamp: tuple[int, int, int] | None = None
        self._known: list[_Known] = []  # the newest first

    def accepted(self) -> Sequence[aiohttp.Fingerprint | bool]:
        """What to ask for, one after the other; none while the file was never readable."""
        if self._file is None:
            return [True]
        self._look(self._file)
        return [one.shown for one in self._known]

    def _look(self, file: Path) -> None:
        now_s = time.monotonic()
        self._known = [
            one for one in self._known if one.replaced_s is None or now_s < one.replaced_s + _OUTDATED_S
        ]
        try:
            stamp = stamp_of(file)
            if stamp == self._stamp:
                return
            digest = _digest_of_first(file)
        except (OSError, ValueError):  # one is just put in its place: the next request looks again
            return
        self._stamp = stamp
        if self._known and self._known[0].shown.fingerprint == digest:
            return  # the same objects: aiohttp keeps connections by them
        older = [
            one if one.replaced_s is not None else one._replace(replaced_s=now_s)
            for one in self._known
            if one.shown.fingerprint != digest
        ]
        self._known = [_Known(aiohttp.Fingerprint(digest), None), *older]


def _digest_of_first(file: Path) -> bytes:
    """Of the server's own, which comes first. Raises OSError, and ValueError where there is none."""
    found = _FIRST.search(file.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{file} holds no certificate")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).digest()
