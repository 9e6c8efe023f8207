"""Times and numbers of GPUs as schedulers and people write them into tables."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.errors import ConfigError
from trilens.model.imported_lines import read_fraction

if TYPE_CHECKING:
    from datetime import tzinfo

_NOTHING: Final = frozenset({"", "unknown", "none", "null", "n/a", "nan", "-"})
_SECONDS: Final = re.compile(r"\d{9,11}(?:\.\d+)?")  # since the epoch: 1973 to the year 5138
_MILLISECONDS: Final = re.compile(r"\d{12,14}")
_GPU_RESOURCE: Final = re.compile(r"gres/gpu(?::(?P<type>[^=]+))?=(?P<count>.+)", re.IGNORECASE)
_GPU_GENERIC: Final = re.compile(
    r"(?:gres[:/])?gpu(?::(?P<type>[^:=\d][^:=]*))?[:=](?P<count>\d+)(?:\(.*\))?"
)
_INSTANCE: Final = re.compile(r"\d+g\.\d+gb.*")


class Clock:
    """Reads times; those without a zone are of the table's own."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone or UTC
        self.zone_given = zone is not None
        self.without_zone = 0
        self.twice = 0  # in the hour that a clock was set back: the earlier of the two is meant

    def read(self, text: str) -> int | None:
        """Milliseconds since the epoch; None where the table says that it does not know."""
        if text.lower() in _NOTHING:
            return None
        if _SECONDS.fullmatch(text):
            return int(Fraction(text) * 1000)
        if _MILLISECONDS.fullmatch(text):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as e:
            raise ValueError(
                f"cannot read the time {text!r}: write 2026-01-31T12:00:00, with a zone or without, "
                "or seconds since 1970"
            ) from e
        if moment.tzinfo is None:
            self.without_zone += 1
            moment = moment.replace(tzinfo=self._zone)
            if self._zone is not UTC:
                self.twice += moment.utcoffset() != moment.replace(fold=1).utcoffset()
        return round(moment.timestamp() * 1000)


def zone_named(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    if name.upper() in ("UTC", "Z"):
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as e:
        raise ConfigError(
            f"there is no timezone {name!r}", where="--timezone", hint="write UTC or Europe/Berlin"
        ) from e


class Gpus(NamedTuple):
    number: Fraction
    model: str = ""  # as the scheduler calls it; "" where it names none, or several


def read_gpus(text: str, model: str = "") -> Gpus | None:
    """A number, or what Slurm writes: `billing=8,gres/gpu=8,gres/gpu:a100=8`, `gpu:a100:4`.

    Slurm tells the whole, and beside it each type of GPU. A type that is a MIG instance counts as its part of
    `model`. None where the table does not know; ValueError says what cannot be read.
    """
    if text.lower() in _NOTHING:
        return None
    if "=" not in text and ":" not in text:
        return Gpus(read_fraction(text))
    whole: Fraction | None = None
    types: dict[str, Fraction] = {}
    for resource in text.split(","):
        found = _GPU_RESOURCE.fullmatch(resource.strip()) or _GPU_GENERIC.fullmatch(resource.strip())
        if found is None:
            continue  # cpu=64, gres/gpumem=..., gres/shard=...
        count = read_fraction(found["count"])
        if found["type"]:
            types[found["type"]] = types.get(found["type"], Fraction()) + count
        else:
            whole = count
    named = sum(types.values(), Fraction())
    untyped = Fraction() if whole is None else max(whole - named, Fraction())
    number = untyped + sum((count * _size(name, model) for name, count in types.items()), Fraction())
    only = next(iter(types)) if len(types) == 1 and not untyped else ""
    return Gpus(number, "" if _INSTANCE.fullmatch(only) else only)


def _size(gpu_type: str, model: str) -> Fraction:
    if not _INSTANCE.fullmatch(gpu_type):
        return Fraction(1)
    from trilens.resolve.gpus.shares import instance_share

    share = instance_share(gpu_type, model)
    if share is None:
        raise ValueError(f"{gpu_type} is a part of a GPU: --gpu-model tells of which, as in --gpu-model A100")
    return share


def read_number(text: str) -> Fraction | None:
    """Of GPUs; None where the table has none."""
    return None if text.lower() in _NOTHING else read_fraction(text)
