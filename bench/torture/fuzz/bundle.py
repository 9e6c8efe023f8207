"""Bundles of cases: a zip from somebody else, read and walked. Nothing of it is written anywhere.

The first byte of an input says whether the rest is such a zip, or what one of its members holds: few changes
of a zip come further than its checksums.
"""

from __future__ import annotations

import io
import json
import logging
import zipfile
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from bench.torture.fuzz.json_values import bent
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.diagnose.told import told
from trilens.diagnose.walk import why
from trilens.model.kubernetes import KubeObject, OwnerRef
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

_JOB: Final = WorkloadKey("c", "ml", "batch", "Job", "train", "u-1")
_POD: Final = PodKey("c", "ml", "train-0", "u-2")
_OWNER: Final = OwnerRef("batch", "Job", "train", "u-1", controller=True)
_BODY: Final = {"spec": {"nodeName": "n1"}, "status": {"phase": "Pending"}}
_CASE: Final = CaseFile(
    CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train"),
    1_000,
    2_000,
    "0.5.0",
    workloads=(Workload(_JOB, 900, team="vision"),),
    members=(MembershipInterval(Membership(_POD, _JOB), "n1", 950),),
    phases=(PhaseInterval(_JOB, 0, Phase.RUNNING, "", 960),),
    objects=(
        KubeObject("c", "", "v1", "Pod", "ml", "train-0", "u-2", "7", 940, None, {}, {}, (_OWNER,), _BODY),
    ),
    logs=(LogText(LogKind.CONTAINER, "main", ("ValueError: x", "second"), "n1", _POD, 0),),
)
_ESCAPES: Final = ("../../escape", "/escape", "..\\escape", "logs/../../escape", "C:escape", "a\x00b")
_IS_ZIP: Final = b"\0"
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _take(data: bytes) -> None:
    kind, content = data[:1] or _IS_ZIP, data[1:]
    if kind != _IS_ZIP:
        plain = _plain()
        content = _zipped({**plain, _nth(plain, kind[0] - 1): content}, zipfile.ZIP_STORED)
    case = read_bundle(io.BytesIO(content))
    with _defects() as found:
        json.dumps(told(case, why(Case(case))))
    if found:
        raise found[0]


@contextmanager
def _defects() -> Iterator[list[BaseException]]:
    """A walk goes on without evidence that could not be looked at, and logs why: here that is what is looked
    for."""
    found: list[BaseException] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                found.append(record.exc_info[1])

    log, kept = logging.getLogger(why.__module__), Kept()
    before, log.propagate = log.propagate, False
    log.addHandler(kept)
    try:
        yield found
    finally:
        log.removeHandler(kept)
        log.propagate = before


def _written(case: CaseFile) -> bytes:
    file = io.BytesIO()
    write_bundle(case, file)
    return file.getvalue()


def _zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as bundle:
        for name, content in members.items():
            bundle.writestr(name, content)
    return file.getvalue()


@cache
def _plain() -> dict[str, bytes]:
    """What each member holds, in the order of the zip."""
    with zipfile.ZipFile(io.BytesIO(_written(_CASE))) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def _nth(plain: dict[str, bytes], number: int) -> str:
    return [*plain][number % len(plain)]


def _members() -> dict[str, Any]:
    return {name: json.loads(content) for name, content in _plain().items() if name.endswith(".json")}


def _seeds() -> Iterator[bytes]:
    yield _IS_ZIP + _written(_CASE)
    plain = {name: json.dumps(value).encode() for name, value in _members().items()}
    for method in _METHODS:
        yield _IS_ZIP + _zipped(plain, method)
    yield _IS_ZIP + _zipped({**plain, **dict.fromkeys(_ESCAPES, b"x")})
    yield _IS_ZIP + _zipped({**plain, "objects.json": b"[" * 100_000})
    yield _IS_ZIP + _zipped({**plain, "logs.json": b" " * 5_000_000 + b"[]"})  # a small bomb
    for number, content in enumerate(_plain().values(), 1):
        yield bytes([number]) + content


def _large() -> Iterator[bytes]:
    plain = _plain()
    for number, name in enumerate(plain, 1):
        yield bytes([number]) + b"[" * LARGE
        if isinstance(told := _members().get(name), list) and told:
            yield bytes([number]) + json.dumps(told * (MANY // 100)).encode()
    logs = 1 + [*plain].index("logs/0000.txt")
    for line in (
        b"\n",
        b" ",
        b"a",
        b"[rank0]: ",
        b"Traceback (most recent call last):\n",
        b"ValueError: x\n",
    ):
        yield bytes([logs]) + line * (MANY // 5)
    yield _IS_ZIP + _zipped({**plain, **{f"logs/{number:04}.txt": b"" for number in range(MANY // 5)}})


def _shaped() -> SearchStrategy[bytes]:
    members = _members()

    def zipped(drawn: dict[str, Any], name: str, method: int) -> bytes:
        written = {of: json.dumps(value).encode() for of, value in drawn.items()}
        return _IS_ZIP + _zipped({**written, name: b"x"}, method)

    some = st.fixed_dictionaries({name: bent(value, 1) for name, value in members.items()})
    return st.builds(zipped, some, st.sampled_from(_ESCAPES), st.sampled_from(_METHODS))


BUNDLE: Final = Target("bundles", "bundles of cases: zip, read and walked", _take, _seeds, _shaped, _large)
