"""A YAML file that remembers where everything in it stands, so that an error can say the line and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from trilens.model.errors import ConfigError
from trilens.settings.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

Step: TypeAlias = str | int

_NOT_NUMBERS: Final = ("bool", "null", "merge")


@dataclass(frozen=True, slots=True)
class YamlFile:
    """`tree` is what the file says, None for an empty one."""

    file: Path
    text: str
    tree: Any
    node: yaml.Node | None

    def locate(self, path: tuple[Step, ...]) -> str:
        """`file:line:column` of the key or item at this path, or of the nearest thing above it."""
        mark = self.node.start_mark if self.node is not None else None
        node = self.node
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            key, node = found
            mark = key.start_mark
        return f"{self.file}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(self.file)

    def locate_in_text(self, path: tuple[Step, ...], line: int, column: int) -> str:
        """Where a character of the text at this path stands, by its line and column in that text.

        Exact for a text on one line and for a block (`|`); other styles change the line breaks: there it is
        where the text begins.
        """
        node = self.node
        for step in path:
            found = _child(node, step)
            if found is None:
                return self.locate(path)
            node = found[1]
        if not isinstance(node, yaml.ScalarNode):
            return self.locate(path)
        start, end = node.start_mark, node.end_mark
        if node.style == "|":
            lines = self.text.split("\n")[start.line + 1 :]
            first = next((text for text in lines if text.strip()), "")
            indent = len(first) - len(first.lstrip(" "))
            return f"{self.file}:{start.line + 1 + line}:{indent + column}"
        if start.line != end.line:
            return f"{self.file}:{start.line + 1}:{start.column + 1}"
        quote = 1 if node.style in ("'", '"') else 0
        return f"{self.file}:{start.line + 1}:{start.column + quote + column}"


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in settings, for an error to name. `file` is None for what came from elsewhere."""

    file: YamlFile | None
    path: tuple[Step, ...] = ()

    def __truediv__(self, step: Step) -> Place:
        return Place(self.file, (*self.path, step))

    @property
    def where(self) -> str | None:
        return self.file.locate(self.path) if self.file is not None else None

    def __str__(self) -> str:
        """`scrape_configs[0].job_name`"""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return text.removeprefix(".")


_Fast: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # seven times as fast, where it is built in

_ONLY_WORDS: Final = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _NOT_NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _AsWritten(yaml.SafeLoader):
    """Numbers and dates stay the text that they are: 0.1 is a tenth, and no float is near it."""

    yaml_implicit_resolvers = _ONLY_WORDS


class _FastAsWritten(_Fast):  # type: ignore[misc, valid-type] # whichever there is
    yaml_implicit_resolvers = _ONLY_WORDS


def read_yaml(file: Path, what: str, *, as_written: bool = False) -> YamlFile:
    """`what` is the file's role, for the error when it cannot be read."""
    return parse_yaml(read_text(file, what), file, as_written=as_written)


def parse_yaml(text: str, file: Path, *, as_written: bool = False) -> YamlFile:
    """`file` is where the text was read, for errors to name; with `as_written` numbers and dates are text."""
    fast, plain = (_FastAsWritten, _AsWritten) if as_written else (_Fast, yaml.SafeLoader)
    try:
        try:
            return _read(text, file, fast)
        except yaml.YAMLError:
            return _read(text, file, plain)  # which says better what is wrong
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(file)
        raise ConfigError(f"not valid YAML: {e.problem or e.context}", where=where) from e
    except (yaml.YAMLError, ValueError) as e:  # ValueError: a date such as 2026-99-99
        raise ConfigError(f"not valid YAML: {' '.join(str(e).split())}", where=str(file)) from e


def _read(text: str, file: Path, loader_class: Any) -> YamlFile:
    loader = loader_class(text)
    node = loader.get_single_node()
    _reject_repeated_keys(file, node, set())
    return YamlFile(file, text, loader.construct_document(node) if node is not None else None, node)


def _reject_repeated_keys(file: Path, node: yaml.Node | None, seen: set[int]) -> None:
    """YAML readers let the last of two equal keys win without a word, and half of a file is not in force."""
    if node is None or id(node) in seen:
        return  # an anchor may be used in many places
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _reject_repeated_keys(file, item, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in keys:
                    mark = key.start_mark
                    where = f"{file}:{mark.line + 1}:{mark.column + 1}"
                    raise ConfigError(f"the key {key.value!r} is given a second time", where=where)
                keys.add(key.value)
            _reject_repeated_keys(file, value, seen)


def _child(node: yaml.Node | None, step: Step) -> tuple[yaml.Node, yaml.Node] | None:
    """(where it is named, what it is)."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None
