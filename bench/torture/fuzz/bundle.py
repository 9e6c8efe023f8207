"""Bundles of cases: a zip from somebody else, read and walked. Nothing of it is written anywhere."""

from __future__ import annotations

import io
import json
import logging
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from bench.torture.fuzz.json_values import bent
from bench.torture.fuzz.target import Target
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
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _take(data: bytes) -> None:
    case = read_bundle(io.BytesIO(data))
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


def _members() -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(_written(_CASE))) as bundle:
        return {name: json.loads(bundle.read(name)) for name in bundle.namelist() if name.endswith(".json")}


def _seeds() -> Iterator[bytes]:
    yield _written(_CASE)
    plain = {name: json.dumps(value).encode() for name, value in _members().items()}
    for method in _METHODS:
        yield _zipped(plain, method)
    yield _zipped({**plain, **dict.fromkeys(_ESCAPES, b"x")})
    yield _zipped({**plain, "objects.json": b"[" * 100_000})
    yield _zipped({**plain, "logs.json": b" " * 5_000_000 + b"[]"})  # a small bomb


def _shaped() -> SearchStrategy[bytes]:
    members = _members()

    def zipped(drawn: dict[str, Any], name: str, method: int) -> bytes:
        written = {of: json.dumps(value).encode() for of, value in drawn.items()}
        return _zipped({**written, name: b"x"}, method)

    some = st.fixed_dictionaries({name: bent(value, 1) for name, value in members.items()})
    return st.builds(zipped, some, st.sampled_from(_ESCAPES), st.sampled_from(_METHODS))


BUNDLE: Final = Target("bundles", "bundles of cases: zip, read and walked", _take, _seeds, _shaped)
