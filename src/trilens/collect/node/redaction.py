"""Secrets blacked out of text that people will read: output of programs, command lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK: Final = "[redacted]"
# Repetitions have limits: without them, a long line of the wrong kind would take the square of its length.
# Programs that train language models print "tokens" and "tokenizer" all day: those are no credentials.
_NAME: Final = (
    r"(?:(?i:(?:passw(?:or)?d|passphrase|secret|(?:api|access|private|auth)[_-]?key|credential)[\w.-]{0,48}"
    r"|(?:access|auth|api|bearer|refresh|session|security|hub)[_-]?token)|(?<=[A-Z0-9])_TOKEN)"
)
# name=value, name: value, "name": "value", --name value
_NAMED: Final = re.compile(
    rf"(?P<name>(?:{_NAME}[\"']?\s{{0,8}}[=:]\s{{0,8}}|--[\w.-]{{0,48}}?{_NAME}\s{{1,8}})[\"']?)[^\s\"',;&]+"
)
_BARE_TOKEN: Final = re.compile(r"(?P<name>(?i:\btoken[\"']?\s{0,8}[=:]\s{0,8}[\"']?))[\w.~+/=-]{16,}")
_HEADER: Final = re.compile(r"(?P<name>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_URL: Final = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,20}://)[^\s/@:]{0,256}:[^\s/@]{1,1024}@", re.IGNORECASE
)
_SHAPES: Final = re.compile(
    r"\b(?:"
    r"AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,1024}\.[\w-]{8,4096}\.[\w-]*"  # JSON web tokens
    r")"
)
# Of a text that was cut, the end or the beginning of a key may be all that is left.
_PEM: Final = re.compile(
    r"(?:-----BEGIN [A-Z ]*PRIVATE KEY-----|\A[A-Za-z0-9+/=\s]{1,16384}(?=-----END [A-Z ]*PRIVATE KEY-----))"
    r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
# None of the above is found in a text that has none of these, and nearly all texts have none.
_HINTS: Final = (
    *("passw", "passphrase", "secret", "key", "credential", "token", "bearer", "basic", "://", "-----"),
    *("akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "sk-", "xox"),
    *("aiza", "eyj"),
)


class Redaction:
    def __init__(self, more: Iterable[str] = ()) -> None:
        self._more = [re.compile(pattern) for pattern in more]

    def __call__(self, text: str) -> str:
        lower = text.lower()
        if any(hint in lower for hint in _HINTS):
            text = _without_known(text)
        for pattern in self._more:
            text = pattern.sub(MARK, text)
        return text


def _without_known(text: str) -> str:
    text = _PEM.sub(MARK, text)
    text = _URL.sub(rf"\g<scheme>{MARK}@", text)
    text = _HEADER.sub(rf"\g<name>{MARK}", text)
    text = _SHAPES.sub(MARK, text)
    text = _NAMED.sub(rf"\g<name>{MARK}", text)
    return _BARE_TOKEN.sub(rf"\g<name>{MARK}", text)
