"""A tree executed, as Go's text/template does it, with its words for what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.alert.templates.call_error import CallError
from trilens.alert.templates.functions import ANSWER, ANY, ANYTHING, FUNCTIONS, SAMPLE, STRING, Surroundings
from trilens.alert.templates.lexer import quoted
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
    Pipe,
    Template,
    Text,
    Use,
    Variable,
)
from trilens.alert.templates.values import (
    AlertData,
    Moment,
    QueryAnswer,
    Sample,
    StringMap,
    is_true,
    shown,
    type_name,
)
from trilens.model.errors import TemplateError

if TYPE_CHECKING:
    from trilens.alert.templates.functions import Function
    from trilens.alert.templates.tree import Nodes, Operand

_MAX_DEPTH: Final = 50  # of templates that use each other
_NOTHING: Final = object()  # no value was handed on by a pipeline


def execute(template: Template, data: AlertData, around: Surroundings) -> str:
    """Raises TemplateError."""
    out: list[str] = []
    _Execution(template, around, out, 0, template.name, [("$", data)]).walk(template.nodes, data)
    return "".join(out)


class _Leaving(Exception):
    def __init__(self, kind: str) -> None:
        self.kind = kind


class _Execution:
    def __init__(
        self,
        template: Template,
        around: Surroundings,
        out: list[str],
        depth: int,
        name: str,
        variables: list[tuple[str, Any]],
    ) -> None:
        self._template = template
        self._around = around
        self._out = out
        self._depth = depth
        self._name = name
        self._variables = variables
        self._at: Operand | Command | Use = Dot(0)

    def _error(self, message: str) -> TemplateError:
        before = self._template.source[: self._at.pos]
        line = 1 + before.count("\n")
        column = len(before.rpartition("\n")[2].encode())
        where = f"{self._template.name}:{line}:{column}"
        return TemplateError(f"template: {where}: executing {quoted(self._name)} at <{self._at}>: {message}")

    def walk(self, nodes: Nodes, dot: Any) -> None:
        for node in nodes:
            match node:
                case Text():
                    self._out.append(node.text)
                case Action():
                    value = self._pipeline(node.pipe, dot)
                    if not node.pipe.declared:
                        self._out.append(shown(value))
                case Branch(kind="range"):
                    self._range(node, dot)
                case Branch():
                    self._branch(node, dot)
                case Use():
                    self._use(node, dot)
                case Leave():
                    raise _Leaving(node.kind)

    def _branch(self, node: Branch, dot: Any) -> None:
        known = len(self._variables)
        value = self._pipeline(node.pipe, dot)
        if is_true(value):
            self.walk(node.body, value if node.kind == "with" else dot)
        else:
            self.walk(node.otherwise, dot)
        del self._variables[known:]

    def _range(self, node: Branch, dot: Any) -> None:
        known = len(self._variables)
        value = self._pipeline(node.pipe, dot)
        inner = len(self._variables)
        items: list[tuple[Any, Any]]
        match value:
            case list():
                items = list(enumerate(value))
            case dict():
                items = sorted(value.items())
            case None:
                items = []
            case _:
                raise self._error(f"range can't iterate over {shown(value)}")
        try:
            for key, item in items:
                self._ranged(node.pipe, key, item)
                try:
                    self.walk(node.body, item)
                except _Leaving as e:
                    if e.kind == "break":
                        break
                finally:
                    del self._variables[inner:]
            if not items:
                self.walk(node.otherwise, dot)
        finally:
            del self._variables[known:]

    def _ranged(self, pipe: Pipe, key: Any, item: Any) -> None:
        declared = pipe.declared
        for name, value in zip(reversed(declared), (item, key), strict=False):
            if pipe.assigns:
                self._assign(name, value)
            else:
                self._variables.append((name, value))

    def _use(self, node: Use, dot: Any) -> None:
        self._at = node
        body = self._template.defined.get(node.name)
        if body is None:
            raise self._error(f"template {quoted(node.name)} not defined")
        if self._depth >= _MAX_DEPTH:
            raise self._error(f"exceeded maximum template depth ({_MAX_DEPTH})")
        given = self._pipeline(node.pipe, dot) if node.pipe is not None else None
        inner = _Execution(
            self._template, self._around, self._out, self._depth + 1, node.name, [("$", given)]
        )
        inner.walk(body, given)

    # Pipelines.

    def _pipeline(self, pipe: Pipe, dot: Any) -> Any:
        self._at = pipe
        value: Any = _NOTHING
        for command in pipe.commands:
            value = self._command(command, dot, value)
        for name in pipe.declared if len(pipe.declared) == 1 else ():
            if pipe.assigns:
                self._assign(name, value)
            else:
                self._variables.append((name, value))
        return value

    def _variable(self, name: str) -> Any:
        for known, value in reversed(self._variables):
            if known == name:
                return value
        raise self._error(f"undefined variable: {name}")

    def _assign(self, name: str, value: Any) -> None:
        for place in reversed(range(len(self._variables))):
            if self._variables[place][0] == name:
                self._variables[place] = (name, value)
                return
        raise self._error(f"undefined variable: {name}")

    def _command(self, command: Command, dot: Any, final: Any) -> Any:
        first = command.args[0]
        match first:
            case Identifier():
                return self._function(first, command, command.args[1:], dot, final)
            case Field() | Chain() | Variable():
                return self._path(first, dot, command.args[1:], final)
            case Pipe():
                self._no_function(first, command.args, final)
                return self._pipeline(first, dot)
        self._at = first
        self._no_function(first, command.args, final)
        match first:
            case Constant():
                return first.value
            case Dot():
                return dot
        raise self._error("nil is not a command")

    def _no_function(self, first: Operand, args: tuple[Operand, ...], final: Any) -> None:
        if len(args) > 1 or final is not _NOTHING:
            raise self._error(f"can't give argument to non-function {first}")

    def _path(self, node: Field | Chain | Variable, dot: Any, args: tuple[Operand, ...], final: Any) -> Any:
        self._at = node
        match node:
            case Field():
                value = dot
            case Variable():
                value = self._variable(node.name)
                if not node.path:
                    self._no_function(node, (node, *args), final)
            case Chain():
                value = self._argument(node.node, dot, ANYTHING)
        for place, name in enumerate(node.path):
            is_last = place == len(node.path) - 1
            value = self._field(
                value, name, node, dot, args if is_last else (), final if is_last else _NOTHING
            )
        return value

    def _field(
        self,
        value: Any,
        name: str,
        node: Field | Chain | Variable,
        dot: Any,
        args: tuple[Operand, ...],
        final: Any,
    ) -> Any:
        if isinstance(value, Moment) and name == "Format":
            layout = [self._argument(arg, dot, STRING) for arg in args]
            if final is not _NOTHING:
                layout.append(self._checked(final, STRING))
            if len(layout) != 1:
                self._at = node
                raise self._error(f"wrong number of args for Format: want 1 got {len(layout)}")
            return value.formatted(layout[0])
        has_arguments = bool(args) or final is not _NOTHING
        if isinstance(value, Sample | AlertData | Moment) and name in value.FIELDS:
            if has_arguments:
                raise self._error(f"{name} has arguments but cannot be invoked as function")
            return value.field(name)
        if isinstance(value, dict):
            if has_arguments:
                raise self._error(f"{name} is not a method but has arguments")
            return value.get(name, "" if isinstance(value, StringMap) else None)
        if value is None:
            return None
        raise self._error(f"can't evaluate field {name} in type {type_name(value)}")

    # Functions.

    def _function(
        self, node: Identifier, place: Identifier | Command, args: tuple[Operand, ...], dot: Any, final: Any
    ) -> Any:
        self._at = node
        function = FUNCTIONS[node.name]
        count = len(args) + (final is not _NOTHING)
        fixed = len(function.params) - function.variadic
        if count < fixed or (count > fixed and not function.variadic):
            least = "at least " if function.variadic else ""
            raise self._error(f"wrong number of args for {node.name}: want {least}{fixed} got {count}")
        if node.name in ("and", "or"):
            return self._until(node.name == "or", args, dot, final)
        values = [self._argument(arg, dot, _param(function, position)) for position, arg in enumerate(args)]
        if final is not _NOTHING:
            values.append(self._checked(final, _param(function, len(args))))
        try:
            return function.call(self._around, *values) if function.surrounded else function.call(*values)
        except CallError as e:
            self._at = place
            raise self._error(f"error calling {node.name}: {e}") from e

    def _until(self, wanted: bool, args: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        """The first argument that decides, or the last one."""
        value: Any = None
        for arg in args:
            value = self._argument(arg, dot, ANYTHING)
            if is_true(value) == wanted:
                return value
        return value if final is _NOTHING else final

    def _argument(self, node: Operand, dot: Any, wanted: str) -> Any:
        self._at = node
        match node:
            case Dot():
                return self._checked(dot, wanted)
            case Nil():
                if wanted == STRING:
                    raise self._error(f"cannot assign nil to {wanted}")
                return None
            case Field() | Variable() | Chain():
                return self._checked(self._path(node, dot, (), _NOTHING), wanted)
            case Pipe():
                return self._checked(self._pipeline(node, dot), wanted)
            case Identifier():
                return self._checked(self._function(node, node, (), dot, _NOTHING), wanted)
        if wanted == STRING and not isinstance(node.value, str):
            raise self._error(f"expected string; found {node}")
        if wanted in (SAMPLE, ANSWER):
            raise self._error(f"can't handle {node} for arg of type {wanted}")
        return node.value

    def _checked(self, value: Any, wanted: str) -> Any:
        if wanted in (ANYTHING, ANY):
            return value
        if value is None:
            raise self._error(f"invalid value; expected {wanted}")
        if not isinstance(value, _PYTHON_TYPES[wanted]):
            raise self._error(f"wrong type for value; expected {wanted}; got {type_name(value)}")
        return value


_PYTHON_TYPES: Final[dict[str, type]] = {STRING: str, SAMPLE: Sample, ANSWER: QueryAnswer}


def _param(function: Function, position: int) -> str:
    return function.params[min(position, len(function.params) - 1)]
