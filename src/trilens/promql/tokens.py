"""PromQL cut into tokens with their offsets, by the rules of Prometheus's own scanner."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple


class Token(NamedTuple):
    kind: str  # "word", "number", "bad number", "string", "open string", "op", "other" or "end"
    text: str
    pos: int

    @property
    def end(self) -> int:
        return self.pos + len(self.text)


_SPACE: Final = r"(?P<space>[ \t\r\n]+|\#[^\r\n]*)"
_STRING: Final = r"""(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)|(?P<open>["'`].*)"""
_NUMBER: Final = r"""
    (?P<number>(?:(?:\d+(?:ms|[smhdwy]))+|0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.]))
  | (?P<bad>\.?\d[\w.]*)"""


def _scanner(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join((_SPACE, *parts, "(?P<other>.)")), re.VERBOSE | re.DOTALL | re.ASCII)


_OUTSIDE: Final = _scanner(
    _NUMBER,
    r"(?P<word>[A-Za-z_:][\w:]*)",
    _STRING,
    r"(?P<op>==|!=|=~|!~|>=|<=|[-+*/%^=<>(){}\[\],@])",
)
# A name of a label has no colon, and `==` is `=` twice.
_IN_BRACES: Final = _scanner(r"(?P<word>[A-Za-z_]\w*)", _STRING, r"(?P<op>!=|=~|!~|[={},])")
# A colon separates range and step: `[5m:step]` is not a metric called `:step`.
_IN_BRACKETS: Final = _scanner(_NUMBER, r"(?P<word>[A-Za-z_]\w*)", _STRING, r"(?P<op>[-+*/%^(),:\[\]])")

_KINDS: Final = {"open": "open string", "bad": "bad number"}


def tokenize(query: str) -> list[Token]:
    tokens = []
    scanner = _OUTSIDE
    at = 0
    while at < len(query):
        found = scanner.match(query, at)
        assert found is not None, "every character is at least something else"
        at = found.end()
        kind, text = found.lastgroup or "other", found.group()
        if kind == "space":
            continue
        tokens.append(Token(_KINDS.get(kind, kind), text, found.start()))
        if scanner is _OUTSIDE and kind == "op" and text in "{[":
            scanner = _IN_BRACES if text == "{" else _IN_BRACKETS
        elif (scanner is _IN_BRACES and text == "}") or (scanner is _IN_BRACKETS and text == "]"):
            scanner = _OUTSIDE
    return tokens


_CLOSES: Final = {")": "(", "}": "{", "]": "["}


def unclosed(tokens: list[Token], kinds: str = "({[") -> Token | None:
    """The innermost bracket, of these kinds, that was never closed."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind != "op":
            continue
        if token.text in kinds:
            opened.append(token)
        elif opened and opened[-1].text == _CLOSES.get(token.text):
            opened.pop()
    return opened[-1] if opened else None


_MAX_OPERATORS: Final = 1000
_OPERATORS: Final = frozenset("+-*/%<>") | {"==", "!=", ">=", "<=", "and", "or", "unless", "atan2"}


def one_too_many(tokens: list[Token]) -> Token | None:
    """The operator with which an expression is longer than anybody would write; if any."""
    operators = (token for token in tokens if token.text.lower() in _OPERATORS)
    return next(islice(operators, _MAX_OPERATORS, None), None)


def closing(tokens: list[Token], start: int) -> int | None:
    """The index of the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        if tokens[i].kind == "op":
            if tokens[i].text in "({[":
                depth += 1
            elif tokens[i].text in ")}]":
                depth -= 1
                if depth == 0:
                    return i
    return None


_GOOD_ESCAPE: Final = re.compile(
    r"""\\(?:[abfnrtv\\"']|x[0-9a-fA-F]{2}|[0-3][0-7]{2}
      |u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|U00(?:0(?!0[dD][89a-fA-F])[0-9a-fA-F]|10)[0-9a-fA-F]{4})""",
    re.VERBOSE,
)


def bad_escape(text: str) -> str | None:
    """The first escape of a quoted string that means nothing."""
    quote = text[0]
    if quote == "`":
        return None
    at = text.find("\\")
    while at >= 0:
        found = _GOOD_ESCAPE.match(text, at)
        if found is None or (found.group()[1] in "\"'" and found.group()[1] != quote):
            return text[at : at + 2]
        at = text.find("\\", found.end())
    return None


_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SHORT: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def readable(text: str) -> str:
    """Text that can be written anywhere: bytes that are no UTF-8 become the sign for an unknown character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def string_value(text: str) -> str:
    """What a quoted string means. Escapes can spell bytes that are no UTF-8; they stay, as surrogates."""
    inner = text[1:-1]
    if text[0] == "`" or "\\" not in inner:
        return inner

    def decoded(found: re.Match[str]) -> bytes:
        byte, octal, short, long, plain = found.groups()
        if byte or octal:
            return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF])
        if short or long:
            return chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
        return _SHORT.get(plain, plain).encode()

    parts: list[bytes] = []
    at = 0
    for found in _ESCAPE.finditer(inner):
        parts += [inner[at : found.start()].encode(), decoded(found)]
        at = found.end()
    parts.append(inner[at:].encode())
    return b"".join(parts).decode("utf-8", "surrogateescape")
