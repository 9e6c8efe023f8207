"""A case file as one file: a zip with a text for each section, to be read by people and by `--bundle`.

manifest.json       what it is: format, subject, times
members.json ...    one for each section of the case file
logs/0000.txt ...   the lines of the logs, in the order of logs.json
artifacts/0000 ...  what programs sent, in the order of artifacts.json
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from trilens.diagnose.case_file import FORMAT, CaseFile, CaseSubject
from trilens.model.errors import BundleError
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

_MANIFEST: Final = "manifest.json"
_IN_MANIFEST: Final = ("subject", "from_ms", "to_ms", "made_by")
_JSON: Final = ConfigDict(ser_json_inf_nan="strings")  # a loss may be NaN, and JSON has no word for it
_MAX_BYTES: Final = 1 << 30  # of all members when they are unpacked: a small file can be a huge one inside
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as it is written
# What zipfile raises where a file is damaged, or made to do harm, depends on the byte that is wrong.
_DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,  # NotImplementedError and what is encrypted, too
    ValueError,
    OverflowError,
)


class _Manifest(NamedTuple):
    format: int
    subject: CaseSubject
    from_ms: int
    to_ms: int
    made_by: str


@cache
def _sections() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(CaseFile)
    named = [one.name for one in fields(CaseFile) if one.name not in _IN_MANIFEST]
    return {name: TypeAdapter(hints[name], config=_JSON) for name in named}


def write_bundle(case: CaseFile, to: Path | IO[bytes]) -> None:
    bare = replace(
        case,
        logs=tuple(replace(log, lines=()) for log in case.logs),
        artifacts=tuple(replace(one, content=b"") for one in case.artifacts),
    )
    manifest = _Manifest(FORMAT, case.subject, case.from_ms, case.to_ms, case.made_by)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(_MANIFEST, TypeAdapter(_Manifest).dump_json(manifest, indent=1))
        for name, adapter in _sections().items():
            bundle.writestr(f"{name}.json", adapter.dump_json(getattr(bare, name), indent=1))
        for at, log in enumerate(case.logs):
            bundle.writestr(f"logs/{at:04}.txt", "".join(f"{line}\n" for line in log.lines))
        for at, artifact in enumerate(case.artifacts):
            bundle.writestr(f"artifacts/{at:04}", artifact.content)


def read_bundle(file: Path | IO[bytes]) -> CaseFile:
    """A section that cannot be read is missing, and the file says so; BundleError where it is no bundle."""
    try:
        bundle = zipfile.ZipFile(file)
    except OSError as e:
        raise BundleError(f"cannot read the bundle {file}: {e.strerror or e}") from e
    except _DAMAGE as e:
        raise BundleError(f"not a bundle, or one whose end is missing: {e}") from e
    with bundle:
        return _read(_Members(bundle))


def _read(bundle: _Members) -> CaseFile:
    try:
        manifest = TypeAdapter(_Manifest).validate_json(bundle.content(_MANIFEST))
    except (KeyError, ValidationError, BundleError) as e:
        raise BundleError(f"not a bundle of Trilens: {_MANIFEST} is missing or cannot be read") from e
    found: dict[str, Any] = {}
    missing: list[Missing] = []
    if manifest.format > FORMAT:
        what = f"the bundle was made by a newer Trilens ({manifest.made_by}); what is new in it is not seen"
        missing.append(Missing(what, "update Trilens here"))
    for name, adapter in _sections().items():
        try:
            found[name] = adapter.validate_json(bundle.content(f"{name}.json"))
        except KeyError:
            missing.append(Missing(f"{name} are not in the bundle", "make it with this version of Trilens"))
        except (ValidationError, BundleError) as e:
            reason = str(e).splitlines()[0]
            missing.append(Missing(f"{name} of the bundle cannot be read: {reason}", "make the bundle again"))
    case = CaseFile(manifest.subject, manifest.from_ms, manifest.to_ms, manifest.made_by, **found)
    return replace(
        case,
        logs=tuple(
            replace(log, lines=tuple(text.decode("utf-8", "replace").split("\n")[:-1]))
            for at, log in enumerate(case.logs)
            if (text := _member(bundle, f"logs/{at:04}.txt", missing)) is not None
        ),
        artifacts=tuple(
            replace(one, content=content)
            for at, one in enumerate(case.artifacts)
            if (content := _member(bundle, f"artifacts/{at:04}", missing)) is not None
        ),
        missing=(*case.missing, *missing),
    )


def _member(bundle: _Members, name: str, missing: list[Missing]) -> bytes | None:
    try:
        return bundle.content(name)
    except (KeyError, BundleError) as e:
        missing.append(Missing(f"{name} of the bundle cannot be read: {e}", "make the bundle again"))
        return None


class _Members:
    """Those of a zip that anybody may have made: all together they unpack to no more than may be held."""

    def __init__(self, bundle: zipfile.ZipFile) -> None:
        self._bundle = bundle
        self._left = _MAX_BYTES

    def content(self, name: str) -> bytes:
        """KeyError where it is not there."""
        told = self._bundle.getinfo(name)
        if told.file_size > self._left:
            raise BundleError(f"{name} is {told.file_size} bytes; at most {_MAX_BYTES} are read of a bundle")
        if told.compress_type not in _METHODS:
            raise BundleError(f"{name} is packed in a way that no bundle is")
        self._left -= told.file_size
        try:
            return self._bundle.read(told)  # never more than what it says of its size, whatever is in it
        except _DAMAGE as e:
            raise BundleError(f"{name} is damaged: {e}") from e
