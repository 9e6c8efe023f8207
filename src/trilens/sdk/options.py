"""The SDK's settings: arguments of `init` over TRILENS_* variables over defaults.

This is the only reader of the environment in `sdk/`. A value that cannot be used is counted and left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.guard import Guard

T = TypeVar("T")

DEFAULT_SERVER: Final = "http://127.0.0.1:9333"
DEFAULT_PORT: Final = 9350  # of the first local rank's /metrics; the others of a node follow
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
        token=reader.pick("token", "TRILENS_TOKEN", _text) or _token_file(guard, environ),
        spool_dir=reader.pick("spool", "TRILENS_SPOOL", _path) or _spool_folder(environ),
        spool_bytes=reader.pick("spool_bytes", "TRILENS_SPOOL_BYTES", _positive_int) or defaults.spool_bytes,
        interval_s=reader.pick("interval_s", "TRILENS_INTERVAL_S", _interval) or defaults.interval_s,
        stall_after_s=defaults.stall_after_s if stall_after is None else stall_after,
        metrics=metrics,
        metrics_listen=listen,
        enabled=_enabled(reader),
        experiment=reader.pick("experiment", "TRILENS_EXPERIMENT", _text),
        name=reader.pick("name", "TRILENS_RUN_NAME", _text),
        run_id=reader.pick("run_id", "TRILENS_RUN_ID", _run_id),
        total_steps=reader.pick("total_steps", "TRILENS_TOTAL_STEPS", _positive_int),
        environ=dict(environ),
    )


class _Reader:
    def __init__(self, guard: Guard, environ: Mapping[str, str], given: Mapping[str, object]) -> None:
        self.guard = guard
        self.environ = environ
        self.given = given

    def pick(self, argument: str, variable: str, read: Callable[[object], T]) -> T | None:
        """The argument, else the variable; what cannot be read is as if it were not there."""
        for source, value in ((argument, self.given.get(argument)), (variable, self.environ.get(variable))):
            if value is None or value == "":
                continue
            try:
                return read(value)
            except (TypeError, ValueError) as error:
                self.guard.lost("option", why=f"{source}={value!r}: {error}")
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
        return Path(file).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        guard.lost("option", why=f"TRILENS_TOKEN_FILE: {error}")
        return None


def _spool_folder(environ: Mapping[str, str]) -> Path:
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "trilens" / "spool"
    if home := environ.get("HOME"):
        return Path(home) / ".local" / "state" / "trilens" / "spool"
    return Path("/tmp") / f"trilens-spool-{os.getuid()}"  # noqa: S108 - of this user, when there is no home


def _text(value: object) -> str:
    return str(value)


def _path(value: object) -> Path:
    return Path(os.fspath(value) if isinstance(value, os.PathLike) else str(value))


def _url(value: object) -> str:
    url = str(value).rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an http:// or https:// URL; for example {DEFAULT_SERVER}")
    return url


def _run_id(value: object) -> str:
    text = str(value)
    if not 1 <= len(text) <= 64 or not all(c.isascii() and (c.isalnum() or c in "_.:-") for c in text):
        raise ValueError("a run id is 1 to 64 of A-Za-z0-9_.:-")
    return text


def _positive_int(value: object) -> int:
    number = int(str(value))
    if number <= 0:
        raise ValueError("not above zero")
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
