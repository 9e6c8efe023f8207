"""Tokens made a tree, as Go's text/template/parse does it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.alert.templates.lexer import Token, quoted, tokens
from trilens.alert.templates.tree import (
    Action,
    Branch,
    Chain,
    Command,
    Constant,
    Dot,
    Field,
    Identifier,
    Leave,
    Nil,
    Node,
    Operand,
    Pipe,
    Template,
    Text,
    Use,
    Variable,
)
from trilens.model.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Collection

_END: Final = "{{end}}"
_ELSE: Final = "{{else}}"
_MAX_DEPTH: Final = 100  # of blocks and parentheses: a text must not exhaust the stack


def parse_template(name: str, text: str, functions: Collection[str]) -> Template:
    """Raises TemplateError."""
    return _Parser(name, text, functions).parse()


class _Parser:
    def __init__(self, name: str, text: str, functions: Collection[str]) -> None:
        self._name = name
        self._text = text
        self._functions = functions
        self._tokens = tokens(text)
        self._ahead: list[Token] = []
        self._line = 1
        self._variables = ["$"]
        self._ranges = 0
        self._depth = 0
        self._defined: dict[str, tuple[Node, ...]] = {}

    def parse(self) -> Template:
        nodes: list[Node] = []
        while (token := self._next()).kind != "eof":
            if token.kind == "{{" and self._peek_word().kind == "define":
                self._next_word()
                self._definition()
                continue
            self._back(token)
            found = self._text_or_action()
            if isinstance(found, str):
                raise self._error(f"unexpected {found}")
            nodes += found
        return Template(self._name, self._text, tuple(nodes), self._defined)

    # Tokens, one at a time, with as many to look ahead at as are put back.

    def _next(self) -> Token:
        token = self._ahead.pop() if self._ahead else next(self._tokens)
        self._line = token.line
        return token

    def _back(self, token: Token) -> None:
        self._ahead.append(token)

    def _peek(self) -> Token:
        token = self._next()
        self._back(token)
        return token

    def _next_word(self) -> Token:
        while (token := self._next()).kind == "space":
            pass
        return token

    def _peek_word(self) -> Token:
        token = self._next_word()
        self._back(token)
        return token

    def _expect(self, kinds: tuple[str, ...], context: str) -> Token:
        token = self._next_word()
        if token.kind not in kinds:
            raise self._unexpected(token, context)
        return token

    def _error(self, message: str) -> TemplateError:
        return TemplateError(f"template: {self._name}:{self._line}: {message}")

    def _unexpected(self, token: Token, context: str) -> TemplateError:
        if token.kind == "error":
            return self._error(token.text)
        return self._error(f"unexpected {token} in {context}")

    # Lists of what is written, and of what is done.

    def _items(self) -> tuple[list[Node], str]:
        """Until an {{end}} or {{else}}, which is returned."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error("too deeply nested")
        nodes: list[Node] = []
        while self._peek_word().kind != "eof":
            found = self._text_or_action()
            if isinstance(found, str):
                self._depth -= 1
                return nodes, found
            nodes += found
        self._next_word()
        raise self._error("unexpected EOF")

    def _text_or_action(self) -> list[Node] | str:
        token = self._next_word()
        if token.kind == "text":
            return [Text(token.pos, token.text)]
        if token.kind == "{{":
            return self._action()
        raise self._unexpected(token, "input")

    def _action(self) -> list[Node] | str:
        token = self._next_word()
        match token.kind:
            case "if" | "with" | "range":
                return [self._branch(token)]
            case "break" | "continue":
                return [self._leave(token)]
            case "block":
                return [self._block(token)]
            case "template":
                return [self._use(token)]
            case "else":
                if self._peek_word().kind in ("if", "with"):
                    return _ELSE
                self._expect(("}}",), "else")
                return _ELSE
            case "end":
                self._expect(("}}",), "end")
                return _END
        self._back(token)
        at = self._peek().pos
        return [Action(at, self._pipeline("command", "}}"))]

    def _branch(self, token: Token) -> Branch:
        known = len(self._variables)
        pipe = self._pipeline(token.kind, "}}")
        self._ranges += token.kind == "range"
        body, stop = self._items()
        self._ranges -= token.kind == "range"
        otherwise: list[Node] = []
        if stop == _ELSE:
            following = self._peek_word()
            if following.kind in ("if", "with") and following.kind == token.kind:
                self._next_word()
                otherwise = [self._branch(following)]  # its {{end}} is ours
            elif following.kind in ("if", "with"):
                raise self._unexpected(self._next_word(), "else")
            else:
                otherwise, stop = self._items()
                if stop != _END:
                    raise self._error(f"expected end; found {stop}")
        del self._variables[known:]
        return Branch(pipe.pos, token.kind, pipe, tuple(body), tuple(otherwise))

    def _leave(self, token: Token) -> Leave:
        if (after := self._next_word()).kind != "}}":
            raise self._unexpected(after, f"{{{{{token.kind}}}}}")
        if not self._ranges:
            raise self._error(f"{{{{{token.kind}}}}} outside {{{{range}}}}")
        return Leave(token.pos, token.kind)

    def _use(self, token: Token) -> Use:
        name = self._template_name("template clause")
        pipe = None
        if self._next_word_is_not_end():
            pipe = self._pipeline("template clause", "}}")
        return Use(name.pos, _unquoted(name), pipe)

    def _next_word_is_not_end(self) -> bool:
        token = self._next_word()
        if token.kind == "}}":
            return False
        self._back(token)
        return True

    def _block(self, token: Token) -> Use:
        name = self._template_name("block clause")
        pipe = self._pipeline("block clause", "}}")
        self._define(_unquoted(name), "block clause")
        return Use(name.pos, _unquoted(name), pipe)

    def _definition(self) -> None:
        name = self._template_name("define clause")
        self._expect(("}}",), "define clause")
        self._define(_unquoted(name), "define clause")

    def _define(self, name: str, context: str) -> None:
        variables, ranges = self._variables, self._ranges
        self._variables, self._ranges = ["$"], 0
        body, stop = self._items()
        if stop != _END:
            raise self._error(f"unexpected {stop} in {context}")
        self._variables, self._ranges = variables, ranges
        self._defined[name] = tuple(body)

    def _template_name(self, context: str) -> Token:
        return self._expect(("string", "raw"), context)

    # Pipelines.

    def _pipeline(self, context: str, end: str) -> Pipe:
        start = self._peek_word().pos
        declared, assigns = self._declarations(context)
        commands: list[Command] = []
        while True:
            token = self._next_word()
            if token.kind == end:
                break
            if token.kind not in _STARTS:
                raise self._unexpected(token, context)
            self._back(token)
            commands.append(self._command())
        if not commands:
            raise self._error(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], Constant | Dot | Nil):
                raise self._error(f"non executable command in pipeline stage {stage}")
        return Pipe(start, tuple(commands), declared, assigns)

    def _declarations(self, context: str) -> tuple[tuple[str, ...], bool]:
        declared: list[str] = []
        while (variable := self._peek_word()).kind == "variable":
            self._next_word()
            # A space decides between `$x = 1` and `$x 1`, so it is kept for the command.
            space = self._next()
            following = self._next_word() if space.kind == "space" else space
            if following.kind in (":=", "="):
                declared.append(variable.text)
                self._variables += (
                    declared  # whether one that is assigned was declared is seen when it is done
                )
                return tuple(declared), following.kind == "="
            if following.kind == "," and context == "range" and not declared:
                declared.append(variable.text)
                if self._peek_word().kind != "variable":
                    raise self._error("range can only initialize variables")
                continue
            if following.kind == ",":
                raise self._error(f"too many declarations in {context}")
            self._back(following)
            if space.kind == "space":
                self._back(space)
            self._back(variable)
            break
        return (), False

    def _command(self) -> Command:
        start = self._peek_word().pos
        args: list[Operand] = []
        while True:
            self._peek_word()
            operand = self._operand()
            if operand is not None:
                args.append(operand)
            token = self._next()
            if token.kind == "space":
                continue
            if token.kind in ("}}", ")"):
                self._back(token)
            elif token.kind != "|":
                raise self._unexpected(token, "operand")
            break
        if not args:
            raise self._error("empty command")
        return Command(start, tuple(args))

    def _operand(self) -> Operand | None:
        node = self._term()
        if node is None or self._peek().kind != "field":
            return node
        at, path = self._peek().pos, []
        while self._peek().kind == "field":
            path.append(self._next().text[1:])
        match node:
            case Field():
                return Field(at, (*node.path, *path))
            case Variable():
                return Variable(at, node.name, (*node.path, *path))
            case Constant() | Nil() | Dot():
                raise self._error(f"unexpected . after term {quoted(str(node))}")
        return Chain(at, node, tuple(path))

    def _term(self) -> Operand | None:
        token = self._next_word()
        match token.kind:
            case "identifier":
                if token.text not in self._functions:
                    raise self._error(f"function {quoted(token.text)} not defined")
                return Identifier(token.pos, token.text)
            case ".":
                return Dot(token.pos)
            case "nil":
                return Nil(token.pos)
            case "variable":
                if token.text not in self._variables:
                    raise self._error(f"undefined variable {quoted(token.text)}")
                return Variable(token.pos, token.text)
            case "field":
                return Field(token.pos, (token.text[1:],))
            case "bool":
                return Constant(token.pos, token.text, token.text == "true")
            case "number" | "character":
                return Constant(token.pos, token.text, self._number(token))
            case "(":
                self._depth += 1
                if self._depth > _MAX_DEPTH:
                    raise self._error("too deeply nested")
                pipe = self._pipeline("parenthesized pipeline", ")")
                self._depth -= 1
                return pipe
            case "string" | "raw":
                try:
                    return Constant(token.pos, token.text, _unquoted(token))
                except ValueError as e:
                    raise self._error("invalid syntax") from e
        self._back(token)
        return None

    def _number(self, token: Token) -> int | float:
        text = token.text
        try:
            if token.kind == "character":
                return ord(_unescaped(text[1:-1]))
            plain = text.replace("_", "")
            if plain[-1:] != "i":
                if "x" not in plain.lower() and any(mark in plain for mark in ".eE"):
                    return float(plain)
                if "x" in plain.lower() and any(mark in plain for mark in ".pP"):
                    return float.fromhex(plain)
                return self._whole(text, plain)
        except (ValueError, TypeError):  # the latter of more than one character
            pass
        raise self._error(
            f"malformed character constant: {text}"
            if token.kind == "character"
            else f"illegal number syntax: {quoted(text)}"
        )

    def _whole(self, text: str, plain: str) -> int:
        """Raises ValueError where it is not even a number."""
        bare = plain.lstrip("+-")
        is_octal = len(bare) > 1 and bare.startswith("0") and bare.isdecimal()
        try:
            value = int(plain, 8 if is_octal else 0)
        except ValueError:
            float(plain)
            value = None
        if value is None or not -(2**63) <= value < 2**63:
            raise self._error(f"integer overflow: {quoted(text)}")
        return value


_STARTS: Final = frozenset(
    {"bool", "character", ".", "field", "identifier", "number", "nil", "raw", "string", "variable", "("}
)


def _unquoted(token: Token) -> str:
    """Raises ValueError."""
    inside = token.text[1:-1]
    return inside.replace("\r", "") if token.kind == "raw" else _unescaped(inside)


def _unescaped(text: str) -> str:
    """Raises ValueError."""
    if _ESCAPE.sub("", text).find("\\") >= 0:
        raise ValueError("a bad escape")
    return _ESCAPE.sub(lambda found: _escaped(found[0]), text)


def _escaped(escape: str) -> str:
    if escape[1] in _NAMED:
        return _NAMED[escape[1]]
    return chr(int(escape[1:], 8) if escape[1].isdecimal() else int(escape[2:], 16))


_ESCAPE: Final = re.compile(
    r"\\(?:[abfnrtv\\'\"]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00[01][0-9a-fA-F]{5}|[0-3][0-7]{2})"
)
_NAMED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
