"""The tokens of a query, read one after the other, and what is said when one does not fit.

The words are Prometheus's own, so that what people know and search for fits.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

from trilens.model.errors import PromQLSyntaxError, line_and_column
from trilens.promql.tokens import Token, bad_escape, string_value, unclosed
from trilens.promql.vocabulary import NUMBER_WORDS, UNITS, described

_DURATION: Final = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?"
)
_UNIT_SECONDS: Final = (31_536_000, 604_800, 86_400, 3600, 60, 1, 0.001)
_LONGEST_S: Final = 2**63 / 1e9  # Prometheus counts nanoseconds: 292 years
_BRACKET_NAMES: Final = {"(": "parenthesis", "{": "brace", "[": "bracket"}


class Cursor:
    """Stands on one token; behind the last one stands the end."""

    def __init__(self, query: str, tokens: list[Token]) -> None:
        self._query = query
        self._tokens = [*tokens, Token("end", "", len(query))]
        self._next = 0
        self._token = self._tokens[0]
        self._aggregations = 0  # how many of them the token is inside of

    def _advance(self) -> None:
        self._next += 1
        self._token = self._tokens[self._next]

    def _word(self) -> str:
        return self._token.text.lower()

    def _peek(self) -> str:
        after = self._next + 1
        return self._tokens[after].text.lower() if after < len(self._tokens) else ""

    def _expect(self, text: str, expected: str, where: str = "") -> None:
        if self._token.text != text:
            raise self._unexpected(where, expected)
        self._advance()

    def _duration(self, where: str, expected: str, *, may_be_zero: bool = False) -> None:
        token = self._token
        if token.kind != "number":
            raise self._unexpected(where, expected)
        seconds = self._number()
        if seconds == 0 and not may_be_zero:
            raise self._fault("duration must be greater than 0", token.pos)
        if seconds >= _LONGEST_S:
            raise self._fault("duration out of range", token.pos)

    def _at_number(self) -> bool:
        return self._token.kind == "number" or self._word() in NUMBER_WORDS

    def _number(self) -> float:
        token = self._token
        self._advance()
        text = token.text.lower()
        if text[-1] in UNITS:
            found = _DURATION.fullmatch(text)
            if found is None:
                raise self._fault(f"not a valid duration string: {json.dumps(token.text)}", token.pos)
            seconds = sum(float(n) * s for n, s in zip(found.groups("0"), _UNIT_SECONDS, strict=True))
            if seconds == 0:  # promql-parser would not read it
                raise self._fault("duration must be greater than 0", token.pos)
            if seconds >= _LONGEST_S:
                raise self._fault("duration out of range", token.pos)
            return seconds
        value = _value(text)
        if math.isinf(value) and text not in NUMBER_WORDS:
            shown = described(token, in_braces=False)
            raise self._fault(f"error parsing {shown}: value out of range", token.pos)
        return value

    def _string(self) -> str:
        token = self._token
        escape = bad_escape(token.text)
        if escape is not None:
            raise self._fault(f"unknown escape sequence {json.dumps(escape)}", token.pos)
        self._advance()
        return string_value(token.text)

    def _fault(self, message: str, pos: int) -> PromQLSyntaxError:
        return PromQLSyntaxError(message, query=self._query, position=pos)

    def _unexpected(self, where: str = "", expected: str = "") -> PromQLSyntaxError:
        token = self._token
        scanned = self._scanner_fault(token, in_braces=where == "label matching")
        if scanned is not None:
            return self._fault(scanned, token.pos)
        context = where or ("aggregation" if self._aggregations else "")
        message = f"unexpected {described(token, in_braces=where == 'label matching')}"
        if context:
            message += f" in {context}"
        return self._fault(f"{message}, expected {expected}", token.pos)

    def _scanner_fault(self, token: Token, *, in_braces: bool) -> str | None:
        """What no grammar could make sense of."""
        inside = " inside braces" if in_braces else ""
        match token.kind:
            case "end":
                bracket = unclosed(self._tokens)
                if bracket is None:
                    return None
                opened = "{}:{}".format(*line_and_column(self._query, bracket.pos))
                return f"unclosed left {_BRACKET_NAMES[bracket.text]}, opened at {opened}"
            case "open string":
                return "unterminated raw string" if token.text[0] == "`" else "unterminated quoted string"
            case "bad number":
                return f"bad number or duration syntax: {json.dumps(token.text)}"
            case "other" if token.text == "!":
                after = self._query[token.end : token.end + 1]
                return f"unexpected character after '!'{inside}: {_quoted(after)}"
            case "other":
                return f"unexpected character{inside}: {_quoted(token.text)}"
        if token.text in ("=~", "!~") and not in_braces:
            return f"unexpected character after '{token.text[0]}': '~'"
        if token.text == ")" and unclosed(self._tokens[: self._next], "(") is None:
            return "unexpected right parenthesis ')'"
        if token.text in ("]", "}") and unclosed(self._tokens[: self._next]) is None:
            return f"unexpected right {'bracket' if token.text == ']' else 'brace'} '{token.text}'"
        return None


def _value(text: str) -> float:
    try:
        return float.fromhex(text) if text.startswith("0x") else float(text)
    except OverflowError:
        return math.inf


def _quoted(character: str) -> str:
    if not character:
        return "end of input"
    return f"'{character}'" if character.isprintable() else repr(character)
