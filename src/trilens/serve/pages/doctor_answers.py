"""What /api/doctor answers, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

from typing import Literal

import msgspec


class DoctorFinding(msgspec.Struct, frozen=True):
    """`kind` is problem, note (worth knowing) or unconnected (nothing is wrong, and something is not seen).
    `means` is what is lost by it, `copy` what to run or to write, null where words have to do; `where` says
    where that goes."""

    layer: str
    check: str
    kind: Literal["problem", "note", "unconnected"]
    what: str
    means: str
    remedy: str
    where: str | None
    copy: str | None


class DoctorLayer(msgspec.Struct, frozen=True):
    layer: str
    sees: str
    state: Literal["problem", "note", "unconnected", "ok"]


class DoctorArea(msgspec.Struct, frozen=True):
    """`gives` is what one has of it where all is well."""

    area: str
    title: str
    gives: str
    state: Literal["problem", "note", "unconnected", "ok"]
    layers: list[DoctorLayer]
    found: list[DoctorFinding]


class DoctorElsewhere(msgspec.Struct, frozen=True):
    """What a server cannot see, and the command that does, where it is to be run."""

    what: str
    where: str
    command: str


class DoctorAnswer(msgspec.Struct, frozen=True):
    """`now_ms` is the server's clock, `examined_ms` when it last looked."""

    now_ms: int
    examined_ms: int
    took_ms: int
    areas: list[DoctorArea]
    elsewhere: list[DoctorElsewhere]
