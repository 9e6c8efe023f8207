"""PromQL cut into tokens with their offsets: what promql-parser knows and does not tell."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Token(NamedTuple):
    kind: str  # "word", "number", "string", "open string", "op" or "other"
    text: str
    pos: int

    @property
    def end(self) -> int:
        return self.pos + len(self.text)


_DURATION = r"(?:\d+(?:ms|[smhdwy]))+(?![\w.])"
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<number>{_DURATION}|0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d][\w:]*|:[\w:]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
  | (?P<open>["'`].*)
  | (?P<op>==|!=|=~|!~|>=|<=|[-+*/%^=<>(){{}}\[\],:@])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(query: str) -> list[Token]:
    tokens = []
    for found in _TOKEN.finditer(query):
        kind = found.lastgroup or "other"
        if kind != "space":
            tokens.append(Token("open string" if kind == "open" else kind, found.group(), found.start()))
    return _split_colons(tokens)


def _split_colons(tokens: list[Token]) -> list[Token]:
    """Inside brackets a colon separates range and step: `[5m:step]` is not a metric called `:step`."""
    result: list[Token] = []
    depth = 0
    for token in tokens:
        if token.text == "[":
            depth += 1
        elif token.text == "]":
            depth -= 1
        if depth > 0 and token.kind == "word" and token.text.startswith(":"):
            result.append(Token("op", ":", token.pos))
            if len(token.text) > 1:
                rest = token.text[1:]
                result.append(Token("number" if rest[0].isdigit() else "word", rest, token.pos + 1))
        else:
            result.append(token)
    return result


_CLOSES: Final = {")": "(", "}": "{", "]": "["}


def unbalanced(tokens: list[Token]) -> Token | None:
    """The bracket that was never closed (the innermost), or the one that closes nothing."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind != "op":
            continue
        if token.text in "({[":
            opened.append(token)
        elif token.text in _CLOSES:
            if not opened or opened[-1].text != _CLOSES[token.text]:
                return opened[-1] if opened else token
            opened.pop()
    return opened[-1] if opened else None


_MAX_DEPTH: Final = 100
_MAX_OPERATORS: Final = 1000
_OPERATORS: Final = frozenset("+-*/%<>") | {"==", "!=", ">=", "<=", "and", "or", "unless", "atan2"}


def deepest(tokens: list[Token]) -> Token | None:
    """The token at which an expression is nested deeper, or is longer, than anybody would write; if any.

    Powers lean to the right and signs stand before their operand: each is one level deeper, like a bracket.
    """
    depth = powers = signs = operators = 0
    for token in tokens:
        text = token.text.lower()
        signs = signs + 1 if text in ("+", "-") else 0
        powers += text == "^"
        operators += text in _OPERATORS
        if token.kind == "op" and text in "({[":
            depth += 1
        elif token.kind == "op" and text in ")}]":
            depth -= 1
        if depth + powers + signs > _MAX_DEPTH or operators > _MAX_OPERATORS:
            return token
    return None


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
