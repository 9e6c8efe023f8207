"""A template as a tree. Each node knows where it began, and writes itself as Go does in its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from trilens.alert.templates.lexer import quoted


@dataclass(frozen=True, slots=True)
class Text:
    pos: int
    text: str


@dataclass(frozen=True, slots=True)
class Dot:
    pos: int

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True)
class Nil:
    pos: int

    def __str__(self) -> str:
        return "nil"


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a string, a character or a truth value; `source` is how it was written."""

    pos: int
    source: str
    value: bool | int | float | str

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True, slots=True)
class Identifier:
    """A function's name."""

    pos: int
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Field:
    """`.a.b` of what dot is."""

    pos: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.path)


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name.a.b`."""

    pos: int
    name: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join((self.name, *self.path))


@dataclass(frozen=True, slots=True)
class Chain:
    """`(...).a.b`."""

    pos: int
    node: Operand
    path: tuple[str, ...]

    def __str__(self) -> str:
        inner = f"({self.node})" if isinstance(self.node, Pipe) else str(self.node)
        return "".join((inner, *(f".{name}" for name in self.path)))


@dataclass(frozen=True, slots=True)
class Command:
    pos: int
    args: tuple[Operand, ...]

    def __str__(self) -> str:
        return " ".join(f"({arg})" if isinstance(arg, Pipe) else str(arg) for arg in self.args)


@dataclass(frozen=True, slots=True)
class Pipe:
    pos: int
    commands: tuple[Command, ...]
    declared: tuple[str, ...] = ()
    assigns: bool = False  # `=`, not `:=`

    def __str__(self) -> str:
        before = f"{', '.join(self.declared)} {'=' if self.assigns else ':='} " if self.declared else ""
        return before + " | ".join(map(str, self.commands))


Operand: TypeAlias = Dot | Nil | Constant | Identifier | Field | Variable | Chain | Pipe


@dataclass(frozen=True, slots=True)
class Action:
    """A pipeline whose value is written, unless it declares variables."""

    pos: int
    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Branch:
    """`if`, `with` or `range`."""

    pos: int
    kind: str
    pipe: Pipe
    body: Nodes
    otherwise: Nodes


@dataclass(frozen=True, slots=True)
class Leave:
    """`break` or `continue`."""

    pos: int
    kind: str


@dataclass(frozen=True, slots=True)
class Use:
    """`template`."""

    pos: int
    name: str
    pipe: Pipe | None

    def __str__(self) -> str:
        given = f" {self.pipe}" if self.pipe is not None else ""
        return f"{{{{template {quoted(self.name)}{given}}}}}"


Node: TypeAlias = Text | Action | Branch | Leave | Use
Nodes: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """`defined` are those of `define` and `block`, by name."""

    name: str
    source: str
    nodes: Nodes
    defined: dict[str, Nodes] = field(default_factory=dict)
