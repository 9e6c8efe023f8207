"""The SDK's settings: arguments of `init` over TRILENS_* variables over defaults.

This is the only reader of the environment in `sdk/`. A value that cannot be used is counted and left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from trilens.model.run_id import RUN_ID_PATTERN, RUN_ID_RULE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.guard import Guard

T = TypeVar("T")

DEFAULT_SERVER: Final = "http://127.0.0.1:9333"
DEFAULT_PORT: Final = 9350  # of the first local rank's /metrics; the others of a node follow
_LONGEST_LABEL: Final = 1_000
_LARGEST: Final = 2**53  # what JSON tells exactly
_OFF: Final = frozenset({"0", "false", "no", "off"})
_ON: Final = frozenset({"1", "true", "yes", "on"})


class Options(NamedTuple):
    server: str | None = None  # None: nobody named one, DEFAULT_SERVER is tried quietly
    token: str | None = None
    spool_dir: Path = Path("trilens-spool")
    spool_bytes: int = 512 * 1024 * 1024  # over all programs that share the folder
    memory_bytes: int = 4 * 1024 * 1024  # of records that wait, where the spool cannot be written
    interval_s: float = 1.0  # between two batches of records
    heartbeat_s: float = 2.0
    stall_after_s: float = 30.0  # the shortest time without a step that is a stall; 0: no watchdog
    close_s: float = 5.0  # how long the end of the program may wait for the server
    metrics: bool = True
    metrics_listen: str | None = None  # host:port; None: chosen by where the program runs
    enabled: bool = True
    experiment: str | None = None
    name: str | None = None
    run_id: str | None = None
    total_steps: int | None = None
    environ: Mapping[str, str] = {}


def read_options(guard: Guard, environ: Mapping[str, str] | None = None, **given: object) -> Options:
    """`given` are arguments of `init`; None is "not given"."""
    environ = os.environ if environ is None else environ
    reader = _Reader(guard, environ, given)
    defaults = Options()
    metrics, listen = _metrics(reader)
    stall_after = reader.pick("stall_after", "TRILENS_STALL_AFTER_S", _stall)
    return Options(
        server=reader.pick("server", "TRILENS_SERVER", _url),
        token=reader.pick("token", "TRILENS_TOKEN", _token, is_secret=True) or _token_file(guard, environ),
        spool_dir=reader.pick("spool", "TRILENS_SPOOL", _path) or _spool_folder(environ),
        spool_bytes=reader.pick("spool_bytes", "TRILENS_SPOOL_BYTES", _positive_int) or defaults.spool_bytes,
        interval_s=reader.pick("interval_s", "TRILENS_INTERVAL_S", _interval) or defaults.interval_s,
        stall_after_s=defaults.stall_after_s if stall_after is None else stall_after,
        metrics=metrics,
        metrics_listen=listen,
        enabled=_enabled(reader),
        experiment=reader.pick("experiment", "TRILENS_EXPERIMENT", as_label),
        name=reader.pick("name", "TRILENS_RUN_NAME", as_label),
        run_id=reader.pick("run_id", "TRILENS_RUN_ID", _run_id),
        total_steps=reader.pick("total_steps", "TRILENS_TOTAL_STEPS", _positive_int),
        environ=dict(environ),
    )


class _Reader:
    def __init__(self, guard: Guard, environ: Mapping[str, str], given: Mapping[str, object]) -> None:
        self.guard = guard
        self.environ = environ
        self.given = given

    def pick(
        self, argument: str, variable: str, read: Callable[[object], T], *, is_secret: bool = False
    ) -> T | None:
        """The argument, else the variable; what cannot be read is as if it were not there."""
        for source, value in ((argument, self.given.get(argument)), (variable, self.environ.get(variable))):
            if value is None or (isinstance(value, str) and not value):
                continue
            try:
                return read(value)
            except Exception as error:  # noqa: BLE001 - whatever a program may hand over
                shown = source if is_secret else f"{source}={_shown(value)}"
                self.guard.lost("option", why=f"{shown}: {error}")
        return None


def _metrics(reader: _Reader) -> tuple[bool, str | None]:
    given = reader.given.get("metrics")
    if given is False:
        return False, None
    wanted = reader.pick("metrics" if isinstance(given, str) else "", "TRILENS_METRICS_LISTEN", _listen)
    return wanted != "off", None if wanted == "off" else wanted


def _enabled(reader: _Reader) -> bool:
    given = reader.given.get("enabled")
    if given is not None:
        return bool(given)
    return not reader.pick("", "TRILENS_DISABLED", _switch)


def _token_file(guard: Guard, environ: Mapping[str, str]) -> str | None:
    file = environ.get("TRILENS_TOKEN_FILE")
    if not file:
        return None
    try:
        return _token(Path(file).read_text(encoding="utf-8")) or None
    except (OSError, ValueError) as error:  # UnicodeDecodeError too
        guard.lost("option", why=f"TRILENS_TOKEN_FILE: {error}")
        return None


def _spool_folder(environ: Mapping[str, str]) -> Path:
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "trilens" / "spool"
    if home := environ.get("HOME"):
        return Path(home) / ".local" / "state" / "trilens" / "spool"
    return Path("/tmp") / f"trilens-spool-{os.getuid()}"  # noqa: S108 - of this user, when there is no home


def as_label(value: object) -> str:
    """What people call something: not longer than the server takes."""
    return str(value)[:_LONGEST_LABEL]


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - an object that cannot be shown
        return f"a {type(value).__qualname__}"


def _token(value: object) -> str:
    """As it stands in a header. A secret often ends with a line feed that nobody meant."""
    text = str(value).strip()
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a token has printable ASCII characters only")
    return text


def _path(value: object) -> Path:
    return Path(os.fspath(value) if isinstance(value, os.PathLike) else str(value))


def _url(value: object) -> str:
    from urllib.parse import urlsplit

    url = str(value).strip().rstrip("/")
    parts = urlsplit(url)  # ValueError for brackets that do not match
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii():
        raise ValueError(f"not an http:// or https:// URL; for example {DEFAULT_SERVER}")
    if parts.port == 0:  # ValueError where it is no number
        raise ValueError("nobody listens on port 0")
    return url


def _run_id(value: object) -> str:
    text = str(value)
    if not re.fullmatch(RUN_ID_PATTERN, text):
        raise ValueError(f"a run id is {RUN_ID_RULE}")
    return text


def _positive_int(value: object) -> int:
    number = int(str(value))
    if not 0 < number <= _LARGEST:
        raise ValueError(f"not between 1 and {_LARGEST}")
    return number


def _interval(value: object) -> float:
    number = float(str(value))
    if not 0.1 <= number <= 60:
        raise ValueError("not between 0.1 and 60 seconds")
    return number


def _stall(value: object) -> float:
    number = float(str(value))
    if not (number == 0 or 1 <= number <= 86_400):
        raise ValueError("neither 0 (no watchdog) nor between 1 second and a day")
    return number


def _switch(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in _ON | _OFF:
        raise ValueError("neither 1 nor 0")
    return text in _ON


def _listen(value: object) -> str:
    text = str(value).strip()
    if text.lower() in _OFF:
        return "off"
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError("not host:port, :port or off")
    return f"{host}:{int(port)}"
