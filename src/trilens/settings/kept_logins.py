"""What `trilens login` keeps for its user: of each server the token that is sent to it, and to no other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWNER_ALONE: Final = 0o600


def logins_file(environ: Mapping[str, str] | None = None) -> Path | None:
    """None where there is no home: the user of a container may have none."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if (home := environ.get("HOME")) else "")
    return Path(base) / "trilens" / "logins.json" if base else None


def kept_login(file: Path | None, server: str) -> str | None:
    return _read(file).get(server) if file is not None else None


def keep_login(file: Path | None, server: str, token: str | None) -> bool:
    """None forgets it. Whether there was one before."""
    if file is None:
        raise ConfigError("there is no home directory to keep it in", hint="set TRILENS_TOKEN instead")
    kept = _read(file)
    was_there = kept.pop(server, None) is not None
    if token is not None:
        kept[server] = token
    elif not was_there:
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        with os.fdopen(
            os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE), "w"
        ) as opened:
            json.dump(kept, opened)
        unfinished.rename(file)
    except OSError as e:
        raise ConfigError(f"cannot write {file}: {e.strerror or e}", hint="set TRILENS_TOKEN instead") from e
    return was_there


def _read(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as e:
        raise ConfigError(
            f"cannot read the kept logins {file}: {e}", hint="remove it, and log in again"
        ) from e
    if not isinstance(found, dict):
        raise ConfigError(f"{file} holds no logins", hint="remove it, and log in again")
    return {name: token for name, token in found.items() if isinstance(token, str)}
