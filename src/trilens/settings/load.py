"""Settings from four places: command line over environment over file over defaults."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import yaml
from pydantic import ValidationError

from trilens.model.errors import ConfigError, UnknownSetting
from trilens.settings.files import read_text
from trilens.settings.tree import ENVIRONMENT_PREFIX, Settings, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    tree: dict[str, Any] = {}
    file = file or find_file(environ)
    if file is not None:
        tree = read_file(file)
    for path, value in {**_from_environment(environ), **(overrides or {})}.items():
        if value is None:
            continue
        group, _, key = path.partition(".")
        section = tree.setdefault(group, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{group}: expected a mapping, got {section!r}")
        section[key] = value
    return validate(tree, source=str(file) if file else None).read_from(file)


def find_file(environ: Mapping[str, str]) -> Path | None:
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.is_file() else None


def read_file(file: Path) -> dict[str, Any]:
    """The file as a tree; relative paths in it are relative to the file."""
    text = read_text(file, "the settings file")
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"{file} is not valid YAML: {' '.join(str(e).split())}") from e
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected settings by name, got {type(tree).__name__}")
    for group, key in _path_settings():
        section = tree.get(group)
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = str(file.parent / section[key])
    return tree


def validate(tree: Mapping[str, Any], source: str | None = None) -> Settings:
    # A group that is written but left empty ("scrape:" and nothing below) means its defaults.
    tree = {group: {} if section is None else section for group, section in tree.items()}
    try:
        return Settings.model_validate(tree)
    except ValidationError as e:
        raise _explain(e, source) from e


def _path_settings() -> list[tuple[str, str]]:
    return [(x.group, x.key) for x in leaves() if Path in (x.field.annotation, *get_args(x.field.annotation))]


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    by_name = {leaf.environment_name: leaf.path for leaf in leaves()}
    found = {}
    for name, value in environ.items():
        if name in by_name:
            found[by_name[name]] = value
        elif name.startswith(ENVIRONMENT_PREFIX) and not _SERVICE_LINK.search(name):
            # Other programs own some TRILENS_ names too, so only a near miss is taken for a mistake.
            nearest = difflib.get_close_matches(name, by_name, n=1, cutoff=0.85)
            if nearest:
                raise UnknownSetting(name, nearest[0])
    return found


def _explain(error: ValidationError, source: str | None) -> ConfigError:
    """One clear line out of pydantic's list: an unknown name first, for it often causes the others."""
    problems = error.errors(include_url=False)
    for problem in problems:
        if problem["type"] == "extra_forbidden":
            path = ".".join(map(str, problem["loc"]))
            return UnknownSetting(path, _nearest(path))
    lines = []
    for problem in problems:
        path = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{path}: {message}" if path else message)
    where = f"{source}: " if source else ""
    return ConfigError(where + "; ".join(lines))


def _nearest(path: str) -> str | None:
    """The known path most like this one: by its own name within its group first, then by the whole."""
    known = [leaf.path for leaf in leaves()] + list(Settings.model_fields)
    group, dot, key = path.partition(".")
    if dot:
        siblings = {leaf.key: leaf.path for leaf in leaves() if leaf.group == group}
        if match := difflib.get_close_matches(key, siblings, n=1):
            return siblings[match[0]]
    if match := difflib.get_close_matches(path, known, n=1):
        return match[0]
    by_key = {leaf.key: leaf.path for leaf in leaves()}
    if match := difflib.get_close_matches(key or path, by_key, n=1):
        return by_key[match[0]]
    return None
