"""Reads a query as Prometheus's grammar does, to say where it first goes wrong and what was expected there.

Nothing is built here: promql-parser makes the tree of a query in which no fault is found. It says of a bad
one little, and never where.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import re2

from trilens.model.errors import PromQLUnsupported
from trilens.promql.cursor import Cursor
from trilens.promql.nodes import COMPARISONS, SET_OPERATORS
from trilens.promql.patterns import WHOLE_VALUE, compile_pattern
from trilens.promql.signatures import SIGNATURES
from trilens.promql.tokens import Token, closing, readable
from trilens.promql.vocabulary import (
    AGGREGATIONS,
    EXTENDED,
    FILLS,
    GROUPING,
    MATCH_OPERATORS,
    NEVER_CALLED,
    NEVER_LABELS,
    NEVER_NAMES,
    PARAMETERS,
    POWER,
    PRECEDENCE,
    TIME_BOUNDS,
    UNITS,
    nearest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.promql.nodes import ValueKind

_COMPUTING: Final = frozenset({"(", ")", "*", "/", "%", "^", "+", "-"})
# Levels of brackets, signs, powers, and operators that bind tighter than the one before. Each takes Python
# up to six calls to read, of the thousand that it has, and promql-parser some of its stack.
_DEEPEST: Final = 120
_LATEST_S: Final = 2**62 / 1e3  # milliseconds, with room for a range and an offset
_KIND_NAMES: Final[dict[ValueKind, str]] = {
    "scalar": "scalar",
    "vector": "instant vector",
    "matrix": "range vector",
    "string": "string",
}
_SHIFTABLE: Final = "an instant vector selector or range vector selector or a subquery"


class _Operand(NamedTuple):
    """What has been read of an expression: enough to check what is done with it."""

    pos: int
    kind: ValueKind
    form: str = ""  # "selector", "range" or "subquery": what `offset` and `@` may follow
    shifted: bool = False
    fixed: bool = False


class _Modifiers(NamedTuple):
    returns_bool: bool = False
    on: bool = False
    labels: tuple[str, ...] = ()
    grouped: bool = False
    include: tuple[str, ...] = ()
    filled: bool = False


class _Matchers(NamedTuple):
    names: tuple[str, ...] = ()  # what the metric should be called
    selects: bool = False  # whether any of them keeps out what has no such label


def check(query: str, tokens: list[Token]) -> None:
    """Raises PromQLSyntaxError at the first fault, PromQLUnsupported for PromQL that is not read here."""
    _Reader(query, tokens).check()


class _Reader(Cursor):
    def __init__(self, query: str, tokens: list[Token]) -> None:
        super().__init__(query, tokens)
        # What is written well but makes no sense; told only if all is written well, as in Prometheus.
        self._misuses: list[tuple[str, int]] = []
        self._depth = 0

    def check(self) -> None:
        if self._token.kind == "end":
            raise self._fault("no expression found in input", 0)
        self._expression()
        if self._token.kind != "end":
            raise self._unexpected(expected="an operator or the end")
        if self._misuses:
            raise self._fault(*self._misuses[0])

    def _misuse(self, message: str, pos: int) -> None:
        self._misuses.append((message, pos))

    # Expressions

    def _expression(self, least: int = 0) -> _Operand:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._fault("the expression is nested too deeply", self._token.pos)
        left = self._operand()
        while True:
            op = self._token
            level = PRECEDENCE.get(self._word())
            if level is None or level < least:
                self._depth -= 1
                return left
            self._advance()
            if op.text in ("<", ">") and self._token.text == "/":
                raise PromQLUnsupported(f"the native histogram operator {op.text}/ is not supported")
            modifiers = self._modifiers()
            right = self._expression(level if level == POWER else level + 1)
            left = self._binary(left, op, modifiers, right)

    def _operand(self) -> _Operand:
        sign = self._token
        if sign.text in ("+", "-"):
            self._advance()
            operand = self._expression(POWER)
            if operand.kind not in ("scalar", "vector"):
                got = json.dumps(_KIND_NAMES[operand.kind])
                wanted = "expressions of type scalar or instant vector"
                self._misuse(f"unary expression only allowed on {wanted}, got {got}", sign.pos)
            return _Operand(sign.pos, operand.kind)
        operand = self._primary()
        while True:
            word = self._word()
            if word == "[":
                operand = self._range(operand)
            elif word == "offset":
                operand = self._offset(operand)
            elif word == "@":
                operand = self._at(operand)
            elif word in EXTENDED:
                raise PromQLUnsupported(f"the {word} modifier is not supported")
            else:
                return operand

    def _primary(self) -> _Operand:
        token, word, after = self._token, self._word(), self._peek()
        if self._at_number():
            self._number()
            return _Operand(token.pos, "scalar")
        if token.kind == "string":
            self._string()
            return _Operand(token.pos, "string")
        if word == "(":
            self._advance()
            inner = self._expression()
            self._expect(")", f"an operator or {json.dumps(')')}")
            return _Operand(token.pos, inner.kind)
        if word in AGGREGATIONS and (after == "(" or after in GROUPING):
            return self._aggregation()
        if token.kind == "word" and after == "(" and word not in NEVER_CALLED and ":" not in word:
            return self._call()
        if word == "{" or (token.kind == "word" and word not in NEVER_NAMES):
            return self._selector()
        raise self._unexpected(expected="an expression")

    def _binary(self, left: _Operand, op: Token, modifiers: _Modifiers, right: _Operand) -> _Operand:
        name = op.text.lower()
        kinds = {left.kind, right.kind}
        comparing, joining = name in COMPARISONS, name in SET_OPERATORS
        if modifiers.returns_bool and not comparing:
            self._misuse("bool modifier can only be used on comparison operators", op.pos)
        if comparing and not modifiers.returns_bool and kinds == {"scalar"}:
            self._misuse("comparisons between scalars must use BOOL modifier", op.pos)
        for label in modifiers.labels:
            if modifiers.on and label in modifiers.include:
                quoted = json.dumps(label)
                self._misuse(f"label {quoted} must not occur in ON and GROUP clause at once", op.pos)
        for side in (left, right):
            if side.kind not in ("scalar", "vector"):
                self._misuse(
                    "binary expression must contain only scalar and instant vector types, "
                    f"got {_KIND_NAMES[side.kind]}",
                    side.pos,
                )
        if kinds != {"vector"}:
            if modifiers.labels:
                self._misuse("vector matching only allowed between instant vectors", left.pos)
            if modifiers.filled:
                self._misuse("filling in missing series only allowed between instant vectors", left.pos)
            if joining and "scalar" in kinds:
                self._misuse(
                    f"set operator {json.dumps(name)} not allowed in binary scalar expression", left.pos
                )
        elif joining and modifiers.grouped:
            self._misuse(f"no grouping allowed for {json.dumps(name)} operation", left.pos)
        elif joining and modifiers.filled:
            self._misuse("filling in missing series not allowed for set operators", left.pos)
        return _Operand(left.pos, "scalar" if kinds == {"scalar"} else "vector")

    def _modifiers(self) -> _Modifiers:
        found = _Modifiers()
        if self._word() == "bool":
            self._advance()
            found = found._replace(returns_bool=True)
        if self._word() in ("on", "ignoring"):
            on = self._word() == "on"
            self._advance()
            found = found._replace(on=on, labels=self._labels())
            if self._word() in ("group_left", "group_right"):
                self._advance()
                include = self._labels() if self._token.text == "(" else ()
                found = found._replace(grouped=True, include=include)
        while self._word() in FILLS and self._peek() == "(":
            self._advance()
            self._advance()
            if self._token.text in ("+", "-"):
                self._advance()
            if not self._at_number() or self._token.text[-1] in UNITS:
                raise self._unexpected("fill modifier", "number")
            self._number()
            self._expect(")", json.dumps(")"), "fill modifier")
            found = found._replace(filled=True)
        return found

    # Calls

    def _call(self) -> _Operand:
        name = self._token
        if name.text == "info":
            raise PromQLUnsupported("the function info() is not supported")
        self._advance()
        before = len(self._misuses)
        signature = SIGNATURES.get(name.text)

        def compare(place: int, argument: _Operand) -> None:
            if signature is None or not signature.args:
                return
            if signature.most is not None and place >= max(signature.most, len(signature.args)):
                return
            wanted = signature.kind(place)
            if argument.kind != wanted:
                self._misuse(
                    f"expected type {_KIND_NAMES[wanted]} in call to function {json.dumps(name.text)}, "
                    f"got {_KIND_NAMES[argument.kind]}",
                    argument.pos,
                )

        count = self._arguments(compare)
        if signature is None:
            raise self._fault(
                f"unknown function with name {json.dumps(name.text)}{nearest(name.text)}", name.pos
            )
        if count < signature.least or (signature.most is not None and count > signature.most):
            if signature.least == signature.most:
                bound, number = "", signature.least
            elif count < signature.least:
                bound, number = "at least ", signature.least
            else:
                bound, number = "at most ", signature.most or 0
            called = f"in call to {json.dumps(name.text)}"
            wrong = f"expected {bound}{number} argument(s) {called}, got {count}"
            self._misuses.insert(before, (wrong, name.pos))
        return _Operand(name.pos, signature.returns)

    def _aggregation(self) -> _Operand:
        name = self._token
        op = self._word()
        self._advance()
        self._aggregations += 1
        grouped = self._grouping()
        arguments: list[_Operand] = []
        if self._token.text != "(":
            raise self._unexpected(expected=json.dumps("("))
        self._arguments(lambda _, argument: arguments.append(argument))
        if not grouped:
            self._grouping()
        self._aggregations -= 1
        wanted = 2 if op in PARAMETERS else 1
        if not arguments:
            raise self._fault("no arguments for aggregate expression provided", name.pos)
        if len(arguments) != wanted:
            counts = f"expected {wanted}, got {len(arguments)}"
            raise self._fault(
                f"wrong number of arguments for aggregate expression provided, {counts}", name.pos
            )
        self._want("vector", arguments[-1], "aggregation expression")
        if op in PARAMETERS:
            self._want(PARAMETERS[op], arguments[0], "aggregation parameter")
        return _Operand(name.pos, "vector")

    def _want(self, kind: ValueKind, got: _Operand, where: str) -> None:
        if got.kind != kind:
            message = f"expected type {_KIND_NAMES[kind]} in {where}, got {_KIND_NAMES[got.kind]}"
            self._misuse(message, got.pos)

    def _arguments(self, take: Callable[[int, _Operand], None]) -> int:
        """All between two parentheses; `take` is called with each before the next one is read."""
        self._advance()
        count = 0
        while self._token.text != ")":
            take(count, self._expression())
            count += 1
            comma = self._token
            if comma.text == ")":
                break
            self._expect(",", 'an operator, "," or ")"')
            if self._token.text == ")":
                raise self._fault("trailing commas not allowed in function call args", comma.pos)
        self._advance()
        return count

    def _grouping(self) -> bool:
        if self._word() not in GROUPING:
            return False
        self._advance()
        self._labels()
        return True

    def _labels(self) -> tuple[str, ...]:
        where = "grouping opts"
        self._expect("(", json.dumps("("), where)
        labels = []
        while self._token.text != ")":
            if self._token.kind == "string":
                labels.append(self._string())
            elif (
                self._token.kind == "word"
                and ":" not in self._token.text
                and self._word() not in NEVER_LABELS
            ):
                labels.append(self._token.text)
                self._advance()
            else:
                raise self._unexpected(where, "label")
            if self._token.text != ")":
                self._expect(",", '"," or ")"', where)
        self._advance()
        return tuple(labels)

    # Selectors

    def _selector(self) -> _Operand:
        start = self._token
        name = None
        if start.kind == "word":
            name = start.text
            self._advance()
        inside = self._matchers() if self._token.text == "{" else _Matchers()
        if name is not None and inside.names:
            twice = f"{json.dumps(name)} or {json.dumps(readable(inside.names[0]))}"
            self._misuse(f"metric name must not be set twice: {twice}", start.pos)
        elif name is None and not inside.selects:
            self._misuse("vector selector must contain at least one non-empty matcher", start.pos)
        return _Operand(start.pos, "vector", "selector")

    def _matchers(self) -> _Matchers:
        where = "label matching"
        self._advance()
        names = []
        selects = False
        while self._token.text != "}":
            label = self._token
            if label.kind not in ("word", "string"):
                raise self._unexpected(where, 'identifier or "}"')
            if label.kind == "word" and label.text == "or":  # promql-parser takes it for an operator
                raise self._fault("a label called or must be written in quotes", label.pos)
            text = self._string() if label.kind == "string" else label.text
            if label.kind == "word":
                self._advance()
            if label.kind == "string" and self._token.text in (",", "}"):
                names.append(text)
                selects = selects or text != ""
            else:
                op = self._token.text
                if op not in MATCH_OPERATORS:
                    raise self._unexpected(where, "label matching operator")
                self._advance()
                if self._token.kind != "string":
                    raise self._unexpected(where, "string")
                value = self._string()
                if text == "__name__":
                    names.append(value)
                selects = self._selects(op, value, label.pos) or selects
            if self._token.text == ",":
                self._advance()
            elif self._token.text != "}":
                raise self._unexpected(where, '"," or "}"')
        self._advance()
        return _Matchers(tuple(names), selects)

    def _selects(self, op: str, value: str, pos: int) -> bool:
        if op in ("=", "!="):
            return (value == "") != (op == "=")
        try:
            pattern = compile_pattern(value)
        except re2.error as e:
            shown = json.dumps(readable(value), ensure_ascii=False)
            raise self._fault(f"error parsing regexp {shown}: {_reason(e)}", pos) from e
        return (pattern.match("") is None) == (op == "=~")

    def _range(self, of: _Operand) -> _Operand:
        bracket = self._token
        end = closing(self._tokens, self._next)
        self._refuse_computed(self._tokens[self._next + 1 : end])
        self._advance()
        self._duration("subquery or range selector", "duration")
        if self._token.text == "]":
            self._advance()
            if of.form != "selector":
                raise self._fault("ranges only allowed for vector selectors", bracket.pos)
            if of.shifted:
                raise self._fault("no offset modifiers allowed before range", bracket.pos)
            if of.fixed:
                raise self._fault("no @ modifiers allowed before range", bracket.pos)
            return _Operand(of.pos, "matrix", "range")
        self._expect(":", '":" or "]"', "subquery or range")
        if self._token.text != "]":
            self._duration("subquery selector", 'duration or "]"')
        self._expect("]", json.dumps("]"), "subquery selector")
        if of.kind != "vector":
            got = _KIND_NAMES[of.kind]
            self._misuse(f"subquery is only allowed on instant vector, got {got} instead", of.pos)
        return _Operand(of.pos, "matrix", "subquery")

    def _offset(self, of: _Operand) -> _Operand:
        self._advance()
        self._refuse_computed(self._offset_tokens())
        if self._token.text in ("+", "-"):
            self._advance()
        self._duration("offset", "duration", may_be_zero=True)
        if not of.form:
            raise self._fault(f"offset modifier must be preceded by {_SHIFTABLE}", of.pos)
        if of.shifted:
            raise self._fault("offset may not be set multiple times", of.pos)
        return of._replace(shifted=True)

    def _offset_tokens(self) -> list[Token]:
        """One signed number, or all of a parenthesis or call and what is tied to it."""
        end = self._next
        while self._tokens[end].text in ("+", "-"):
            end += 1
        if self._tokens[end].kind == "word" and self._tokens[end + 1].text == "(":
            end += 1
        if self._tokens[end].text == "(":
            end = closing(self._tokens, end) or end
        return self._tokens[self._next : end + 1]

    def _at(self, of: _Operand) -> _Operand:
        where = ("@", "timestamp")
        self._advance()
        if self._word() in TIME_BOUNDS:
            self._advance()
            self._expect("(", where[1], where[0])
            self._expect(")", where[1], where[0])
        else:
            if self._token.text in ("+", "-"):
                self._advance()
            if not self._at_number():
                raise self._unexpected(*where)
            moment = self._token.text
            if not self._number() < _LATEST_S:
                raise self._fault(f"timestamp out of bounds for @ modifier: {moment}", of.pos)
        if not of.form:
            raise self._fault(f"@ modifier must be preceded by {_SHIFTABLE}", of.pos)
        if of.fixed:
            raise self._fault("@ <timestamp> may not be set multiple times", of.pos)
        return of._replace(fixed=True)

    def _refuse_computed(self, tokens: list[Token]) -> None:
        """A duration that is more than a number with a sign."""
        rest = tokens[1:] if tokens and tokens[0].text in ("+", "-") else tokens
        starts = bool(rest) and (rest[0].kind in ("number", "word") or rest[0].text == "(")
        fits = all(t.kind in ("number", "word") or t.text in _COMPUTING or t.text in ",:" for t in rest)
        if starts and fits and any(t.text in _COMPUTING for t in rest):
            raise PromQLUnsupported("a duration expression is not supported")


def _reason(error: re2.error) -> str:
    reason = error.args[0] if error.args else "not a regular expression"
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    return text.partition(f": {WHOLE_VALUE}")[0]  # what a pattern is wrapped in is nobody's business
