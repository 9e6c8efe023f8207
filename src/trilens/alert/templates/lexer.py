"""A template cut into tokens: text as it stands, and what is between {{ and }}."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYWORDS: Final = frozenset(
    {"block", "break", "continue", "define", "else", "end", "if", "nil", "range", "template", "with"}
)

_SPACE: Final = " \t\r\n"
_WORD: Final = re.compile(r"\w+")
_SPACES: Final = re.compile(r"[ \t\r\n]+")
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_CHARACTER: Final = re.compile(r"'(?:\\.|[^'\\\n])*'")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*|0[bB][01_]*"
    r"|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)"
)


class Token(NamedTuple):
    """`kind` is "text", "error", "eof", "space", a keyword's own name, one of `:=` `=` `|` `(` `)` `,` `.`
    `{{` `}}`, or "field", "variable", "identifier", "bool", "string", "raw", "character", "number"; "char" is
    anything else that can be printed."""

    kind: str
    pos: int
    text: str
    line: int

    def __str__(self) -> str:
        if self.kind == "eof":
            return "EOF"
        if self.kind == "error":
            return self.text
        if self.kind in KEYWORDS:
            return f"<{self.text}>"
        if len(self.text) > 10:
            return f"{quoted(self.text[:10])}..."
        return quoted(self.text)


def quoted(text: str) -> str:
    """As Go's %q."""
    out = []
    for char in text:
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    return f'"{"".join(out)}"'


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f",
    "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def tokens(text: str) -> Iterator[Token]:
    """The last one is "eof", or the "error" that ended the reading."""
    lexer = _Lexer(text)
    try:
        yield from lexer.read()
    except _Bad as e:
        yield lexer.token("error", lexer.at, str(e))


class _Bad(Exception):
    pass


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def token(self, kind: str, start: int, text: str) -> Token:
        return Token(kind, start, text, 1 + self._text.count("\n", 0, start))

    def read(self) -> Iterator[Token]:
        trims = False  # the action before ended with -}}
        while True:
            opens = self._text.find("{{", self.at)
            raw = self._text[self.at : opens if opens >= 0 else len(self._text)]
            start = self.at
            if trims:
                start += len(raw) - len(raw.lstrip(_SPACE))
                raw = raw.lstrip(_SPACE)
            inside = opens + 2
            trims_before = (
                opens >= 0 and self._text[inside : inside + 1] == "-" and self._is_space(inside + 1)
            )
            if trims_before:
                raw = raw.rstrip(_SPACE)
                inside += 1
            if raw:
                yield self.token("text", start, raw)
            if opens < 0:
                self.at = len(self._text)
                yield self.token("eof", self.at, "")
                return
            self.at = inside
            after = inside + 1 if trims_before else inside
            if self._text.startswith("/*", after):
                trims = self._comment(after)
                continue
            yield self.token("{{", opens, "{{")
            yield from self._action()
            trims = self._text[self.at - 3 : self.at - 2] == "-" and self._text[self.at - 4] in _SPACE

    def _comment(self, start: int) -> bool:
        """Whether it trims what follows."""
        end = self._text.find("*/", start + 2)
        if end < 0:
            raise _Bad("unclosed comment")
        self.at = end + 2
        if self._text.startswith("}}", self.at):
            self.at += 2
            return False
        if self._is_space(self.at) and self._text.startswith("-}}", self.at + 1):
            self.at += 4
            return True
        raise _Bad("comment ends before closing delimiter")

    def _action(self) -> Iterator[Token]:
        depth = 0
        while True:
            text, at = self._text, self.at
            if text.startswith("}}", at) or (self._is_space(at) and text.startswith("-}}", at + 1)):
                if depth:
                    raise _Bad("unclosed left paren")
                self.at += 2 if text.startswith("}}", at) else 4
                yield self.token("}}", at, "}}")
                return
            if at >= len(text):
                raise _Bad("unclosed action")
            char = text[at]
            if char in _SPACE:
                found = _SPACES.match(text, at)
                assert found is not None
                end = found.end()
                if text.startswith("-}}", end):
                    end -= 1  # the last one belongs to the trim marker
                self.at = max(end, at)
                if end > at:
                    yield self.token("space", at, text[at:end])
                continue
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                raise _Bad("unexpected right paren")
            yield self._token_inside(char)

    def _token_inside(self, char: str) -> Token:
        text, start = self._text, self.at
        if text.startswith(":=", start):
            return self._taken(":=", start + 2)
        if char == ":":
            raise _Bad("expected :=")
        if char in "=|(),":
            return self._taken(char, start + 1)
        if char in "\"`'":
            return self._literal(char)
        if char == "$":
            return self._named("variable", start + 1)
        if char == "." and not text[start + 1 : start + 2].isdecimal():
            return self._field()
        if char in "+-." or char.isdecimal():
            return self._number()
        if char == "_" or char.isalpha():
            return self._named("identifier", start)
        if char.isprintable() and char.isascii():
            return self._taken("char", start + 1)
        raise _Bad(f"unrecognized character in action: {_shown(char)}")

    def _literal(self, mark: str) -> Token:
        if mark == "`":
            end = self._text.find("`", self.at + 1)
            if end < 0:
                raise _Bad("unterminated raw quoted string")
            return self._taken("raw", end + 1)
        found = (_QUOTED if mark == '"' else _CHARACTER).match(self._text, self.at)
        if found is None:
            raise _Bad(f"unterminated {'quoted string' if mark == chr(34) else 'character constant'}")
        return self._taken("string" if mark == '"' else "character", found.end())

    def _field(self) -> Token:
        found = _WORD.match(self._text, self.at + 1)
        if found is None:
            return self._taken(".", self.at + 1)
        return self._ended("field", found.end())

    def _named(self, kind: str, start: int) -> Token:
        found = _WORD.match(self._text, start)
        end = found.end() if found is not None else start
        word = self._text[self.at : end]
        if word in KEYWORDS:
            kind = word
        elif word in ("true", "false"):
            kind = "bool"
        return self._ended(kind, end)

    def _ended(self, kind: str, end: int) -> Token:
        after = self._text[end : end + 1]
        if after and after not in f"{_SPACE}.,|:)(" and not self._text.startswith("}}", end):
            raise _Bad(f"bad character {_shown(after)}")
        return self._taken(kind, end)

    def _number(self) -> Token:
        found = _NUMBER.match(self._text, self.at)
        end = found.end() if found is not None else self.at
        if self._text[end : end + 1] == "i":
            end += 1
        if (word := _WORD.match(self._text, end)) is not None:
            raise _Bad(f"bad number syntax: {quoted(self._text[self.at : min(word.end(), end + 1)])}")
        return self._taken("number", end)

    def _taken(self, kind: str, end: int) -> Token:
        start, self.at = self.at, end
        return self.token(kind, start, self._text[start:end])

    def _is_space(self, at: int) -> bool:
        return self._text[at : at + 1] != "" and self._text[at] in _SPACE


def _shown(char: str) -> str:
    return f"U+{ord(char):04X} '{char}'" if char.isprintable() else f"U+{ord(char):04X}"
