"""Where a query stops making sense, and a message that says so.

promql-parser says what is wrong but not where. The tokens are enough to point at it: brackets are matched,
a function that is named in the message is found again, and what is left is the first token that cannot
stand where it stands.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.promql.tokens import Token, closing, tokenize, unbalanced

if TYPE_CHECKING:
    from collections.abc import Callable


class Fault(NamedTuple):
    message: str
    position: int


_BRACKETS: Final = {"(": "parenthesis", "{": "brace", "[": "bracket"}
_BRACKETS_CLOSED: Final = {")": "parenthesis", "}": "brace", "]": "bracket"}
_NAMED: Final = re.compile(r"function (?:with name )?'(\w+)'|in call to '(\w+)'|aggregate expression '(\w+)'")
_COMPARISONS: Final = frozenset({"==", "!=", ">", "<", ">=", "<="})
_SETS: Final = frozenset({"and", "or", "unless"})
_BINARY: Final = frozenset({"+", "-", "*", "/", "%", "^", "atan2"}) | _COMPARISONS | _SETS
_MATCHING: Final = frozenset(
    {"bool", "on", "ignoring", "group_left", "group_right", "fill", "fill_left", "fill_right"}
)
_UNSUPPORTED: Final = {
    "anchored": "the anchored modifier",
    "smoothed": "the smoothed modifier",
}


def unsupported_syntax(query: str) -> str | None:
    """The name of a newer piece of PromQL that the query uses and the parser does not read, if any."""
    tokens = tokenize(query)
    for before, token in itertools.pairwise(tokens):
        ends_operand = before.text in "]})" or before.kind in ("word", "number")
        if token.kind == "word" and token.text.lower() in _UNSUPPORTED and ends_operand:
            return _UNSUPPORTED[token.text.lower()]
    for i, token in enumerate(tokens):
        if token.text == "info" and i + 1 < len(tokens) and tokens[i + 1].text == "(":
            return "the function info()"
        if token.text == "[" and _computed(tokens[i + 1 : closing(tokens, i) or len(tokens)]):
            return "a duration expression"
        if token.text.lower() == "offset" and i + 1 < len(tokens) and _computed(_operand(tokens, i + 1)):
            return "a duration expression"
        if token.kind == "op" and token.text in "<>" and i + 1 < len(tokens) and tokens[i + 1].text == "/":
            return f"the native histogram operator {token.text}/"
    return None


def _operand(tokens: list[Token], start: int) -> list[Token]:
    """What follows `offset`: one signed number, or all of a parenthesis or call and what is tied to it."""
    end = start
    while end < len(tokens) and tokens[end].text in "+-":
        end += 1
    if end < len(tokens) and tokens[end].kind == "word":
        end += 1
    if end < len(tokens) and tokens[end].text == "(":
        end = closing(tokens, end) or len(tokens)
    return tokens[start : end + 1]


def _computed(tokens: list[Token]) -> bool:
    """Whether a duration is more than a number with a sign."""
    rest = tokens[1:] if tokens and tokens[0].text == "-" else tokens
    return any(t.text in ("(", ")", "*", "/", "%", "^", "+", "-") for t in rest)


def locate(query: str, complaint: str, parses: Callable[[str], str | None]) -> Fault:
    """Turn the parser's complaint into a message with a position.

    `parses` gives the parser's complaint about another text, None if it has none: a call that fails
    alone, cut out of the query, is the one to point at.
    """
    tokens = tokenize(query)
    if not tokens:
        return Fault("no expression found in input", 0)
    for token in tokens:
        if token.kind == "open string":
            return Fault("unterminated quoted string", token.pos)
    bracket = unbalanced(tokens)
    if bracket is not None:
        if bracket.text in _BRACKETS:
            return Fault(f"unclosed left {_BRACKETS[bracket.text]}", bracket.pos)
        return Fault(f"unexpected right {_BRACKETS_CLOSED[bracket.text]}", bracket.pos)
    named = _NAMED.search(complaint)
    if named:
        name = next(filter(None, named.groups()))
        return Fault(complaint, _failing_call(query, tokens, name, complaint, parses))
    misplaced = _first_misplaced(tokens)
    if complaint == "invalid promql query":
        if misplaced is None:
            return Fault("this is not a valid expression", tokens[0].pos)
        if misplaced.kind == "end":
            return Fault("unexpected end of input", len(query.rstrip()))
        return Fault(f"unexpected {misplaced.text!r}", misplaced.pos)
    return Fault(complaint, _quoted(tokens, complaint))


def _failing_call(
    query: str, tokens: list[Token], name: str, complaint: str, parses: Callable[[str], str | None]
) -> int:
    calls = [i for i, t in enumerate(tokens[:-1]) if t.text.lower() == name and tokens[i + 1].text == "("]
    for i in calls:
        end = closing(tokens, i + 1)
        if end is not None and parses(query[tokens[i].pos : tokens[end].end]) == complaint:
            return tokens[i].pos
    return tokens[calls[0]].pos if calls else tokens[0].pos


def _quoted(tokens: list[Token], complaint: str) -> int:
    """The token that the complaint quotes, or the operator or selector it is about."""
    for text in re.findall(r"'([^']+)'|for (\S+)$", complaint):
        wanted = text[0] or text[1]
        for token in tokens:
            if token.text == wanted or (token.kind == "string" and token.text[1:-1] == wanted):
                return token.pos
    about = {
        "comparisons between scalars": _COMPARISONS,
        "binary expression must": _BINARY,
        "set operator": _SETS,
        "vector selector must": {"{"},
        "offset may not": {"offset"},
        "ranges only": {"["},
        "unary expression": {"-", "+"},
    }
    for start, texts in about.items():
        if complaint.startswith(start):
            found = [t for t in tokens if t.text.lower() in texts]
            if found:
                return found[-1].pos if start == "offset may not" else found[0].pos
    return tokens[0].pos


def _first_misplaced(tokens: list[Token]) -> Token | None:
    """The first token that cannot stand where it does, reading operand, operator, operand, ..."""
    want_operand = True
    i = 0
    while i < len(tokens):
        token = tokens[i]
        word = token.text.lower() if token.kind == "word" else token.text
        if want_operand:
            if word in "+-(":
                pass
            elif token.kind in ("word", "number", "string") and word not in _BINARY | _MATCHING:
                want_operand = False
            elif word == "{":
                i = closing(tokens, i) or i
                want_operand = False
            elif word == ")" and i and tokens[i - 1].text == "(":  # a call without arguments
                want_operand = False
            else:
                return token
        elif word in _BINARY or word == ",":
            i = _skip_matching(tokens, i + 1) - 1
            want_operand = True
        elif word in ("offset", "@"):
            after = _skip_time(tokens, i + 1)
            if after == i + 1:
                return tokens[after] if after < len(tokens) else _end(tokens)
            i = after - 1
        elif word in ("by", "without"):
            i = closing(tokens, i + 1) or i
            want_operand = i + 1 < len(tokens) and tokens[i + 1].text == "("
        elif word in "{[":
            i = closing(tokens, i) or i
        elif word == "(" and tokens[i - 1].kind == "word":
            want_operand = True
        elif word != ")":
            return token
        i += 1
    return _end(tokens) if want_operand else None


def _end(tokens: list[Token]) -> Token:
    return Token("end", "", tokens[-1].end)


def _skip_matching(tokens: list[Token], i: int) -> int:
    while i < len(tokens) and tokens[i].text.lower() in _MATCHING:
        i += 1
        if i < len(tokens) and tokens[i].text == "(":
            i = (closing(tokens, i) or i) + 1
    return i


def _skip_time(tokens: list[Token], i: int) -> int:
    while i < len(tokens) and tokens[i].text in "+-":
        i += 1
    if i < len(tokens) and tokens[i].text.lower() in ("start", "end"):
        return i + 3
    return i + 1 if i < len(tokens) and tokens[i].kind == "number" else i
