"""Settings from four places: command line over environment over file over defaults."""

from __future__ import annotations

import difflib
import os
import re
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel, ValidationError

from trilens.model.errors import ConfigError, UnknownSetting
from trilens.settings.explain import explain
from trilens.settings.group import by_file
from trilens.settings.programs import VARIABLES_OF_PROGRAMS
from trilens.settings.tree import ENVIRONMENT_PREFIX, Settings, leaves
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.settings.yaml_file import YamlFile

OPTIONS: Final = {
    "server.listen": "--listen",
    "agent.listen": "--listen",
    "storage.data_dir": "--data",
}  # on the command line
DEFAULT_FILE = Path("trilens.yaml")
CONFIG_VARIABLE = "TRILENS_CONFIG"

# Kubernetes puts these into every pod beside a Service named trilens-something; they are not settings.
_SERVICE_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_.*)?$|_PORT$|_PORT_\d+_(TCP|UDP|SCTP)(_.*)?$")


def load_settings(
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """`overrides` are from the command line, by path: {"server.listen": ":9333"}; None is "not given"."""
    environ = os.environ if environ is None else environ
    file = file or find_file(environ)
    document = read_yaml(file, "the settings file") if file is not None else None
    tree = _tree_of(document) if document is not None else {}
    origins: dict[str, str] = {}
    given: list[tuple[str, str, Any]] = [
        (variable, path, environ[variable]) for variable, path in _variables(environ).items()
    ]
    given += [(OPTIONS.get(path, path), path, value) for path, value in (overrides or {}).items()]
    for origin, path, value in given:
        if value is None:
            continue
        group, _, key = path.partition(".")
        section = tree.setdefault(group, {})
        if isinstance(section, dict):  # or the validation will say that it is not
            for other in (by_file(key), key.removesuffix(by_file(""))):
                if other != key and f"{group}.{other}" not in origins:
                    section.pop(other, None)  # the file's way to say the same thing
            section[key] = value
            origins[path] = origin
    return validate(tree, document, origins).read_from(document)


def find_file(environ: Mapping[str, str]) -> Path | None:
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def _tree_of(document: YamlFile) -> dict[str, Any]:
    """The settings of a file; relative paths in it are relative to the file."""
    if document.tree is None:
        return {}
    if not isinstance(document.tree, dict):
        kind = type(document.tree).__name__
        raise ConfigError(f"expected settings by name, got {kind}", where=document.locate(()))
    # A group that is written but left empty ("scrape:" and nothing below) means its defaults.
    tree = {group: {} if section is None else section for group, section in document.tree.items()}
    for group, key in _path_settings():
        section = tree.get(group)
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = str(document.file.parent / section[key])
    return tree


def validate(
    tree: Mapping[str, Any], document: YamlFile | None = None, origins: Mapping[str, str] | None = None
) -> Settings:
    """`origins` names the option or variable that a setting came from, where that was not the file."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as e:
        raise explain(e, Place(document), lambda place: _nearest(str(place)), origins) from e


def _path_settings() -> list[tuple[str, str]]:
    return [(x.group, x.key) for x in leaves() if Path in (x.field.annotation, *get_args(x.field.annotation))]


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings that the environment has, by the variable's name."""
    by_name = {leaf.environment_name: leaf.path for leaf in leaves()}
    found = {}
    for name in environ:
        if name in by_name:
            found[name] = by_name[name]
        elif name.startswith(ENVIRONMENT_PREFIX) and not _SERVICE_LINK.search(name):
            # Other programs own some TRILENS_ names too, so only a near miss is taken for a mistake; and one
            # that is nearest to a client's stops the client at the most, not a server.
            nearest = difflib.get_close_matches(name, [*by_name, *VARIABLES_OF_PROGRAMS], n=1, cutoff=0.85)
            if nearest and nearest[0] in by_name:
                raise UnknownSetting(name, nearest[0], where="the environment")
    return found


def _nearest_within(described: Any, path: str) -> str | None:
    """Of a setting that has named parts, such as clusters: the key most like the last one of the path."""
    part = next((one for one in get_args(described) if isclass(one) and issubclass(one, BaseModel)), None)
    above, _, key = path.rpartition(".")
    match = difflib.get_close_matches(key, part.model_fields if part is not None else (), n=1)
    return f"{above}.{match[0]}" if match else None


def _nearest(path: str) -> str | None:
    """The known path most like this one: by its own name within its group first, then by the whole."""
    for leaf in leaves():
        if path.startswith(f"{leaf.path}."):
            return _nearest_within(leaf.field.annotation, path)
    known = [leaf.path for leaf in leaves()] + list(Settings.model_fields)
    by_key = {leaf.key: leaf.path for leaf in reversed(list(leaves()))}  # the first group that has it
    group, dot, key = path.partition(".")
    if dot:
        siblings = {leaf.key: leaf.path for leaf in leaves() if leaf.group == group}
        if match := difflib.get_close_matches(key, siblings, n=1):
            return siblings[match[0]]
    elif path in by_key:
        return by_key[path]  # only its group is missing
    if match := difflib.get_close_matches(path, known, n=1):
        return match[0]
    if match := difflib.get_close_matches(key or path, by_key, n=1):
        return by_key[match[0]]
    return None
