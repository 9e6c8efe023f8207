"""A case as one file, and back."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest
from whole_case import CASE

from trilens.diagnose import bundle
from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.model.errors import BundleError

if TYPE_CHECKING:
    from trilens.diagnose.case_file import CaseFile


def _written(case: CaseFile = CASE) -> io.BytesIO:
    file = io.BytesIO()
    write_bundle(case, file)
    return file


def _changed(name: str, content: bytes | None) -> io.BytesIO:
    """The same bundle with another content of one member, or without it."""
    changed = io.BytesIO()
    with zipfile.ZipFile(_written()) as before, zipfile.ZipFile(changed, "w") as after:
        for one in before.namelist():
            if one != name:
                after.writestr(one, before.read(one))
            elif content is not None:
                after.writestr(one, content)
    return changed


def test_it_comes_back_as_it_was() -> None:
    assert read_bundle(_written()) == CASE


def test_people_can_read_what_is_in_it() -> None:
    with zipfile.ZipFile(_written()) as opened:
        assert opened.read("logs/0000.txt").decode() == "one\nzwei ü\n\n"
        assert json.loads(opened.read("gpus.json"))[0]["model"] == "H200"
        assert json.loads(opened.read("manifest.json"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("ranks.json", None), ("ranks.json", b'[{"rank": "x"}]'), ("ranks.json", b"[")],
    ids=["left-out", "wrong", "cut"],
)
def test_a_section_that_cannot_be_read_is_missing_and_the_others_are_there(
    name: str, content: bytes | None
) -> None:
    case = read_bundle(_changed(name, content))
    assert case.ranks == ()
    assert (case.notes, case.logs) == (CASE.notes, CASE.logs)
    assert any("ranks" in one.what for one in case.missing)


def test_a_log_that_is_not_there_is_missing() -> None:
    case = read_bundle(_changed("logs/0000.txt", None))
    assert case.logs == ()
    assert any("logs/0000.txt" in one.what for one in case.missing)


def test_what_a_newer_trilens_wrote_is_read_as_far_as_it_is_known() -> None:
    manifest = [bundle.FORMAT + 1, ["workload", "c", "ml", "train"], 1_000, 2_000, "9.0.0", "what else"]
    case = read_bundle(_changed("manifest.json", json.dumps(manifest[:5]).encode()))
    assert case.gpus == CASE.gpus
    assert any("newer Trilens (9.0.0)" in one.what for one in case.missing)


def test_a_member_that_unpacks_to_more_than_it_may_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_MAX_BYTES", 100_000)
    case = read_bundle(_changed("artifacts/0000", b"\0" * 100_001))
    assert case.artifacts == ()
    assert any("at most 100000 are read" in one.what for one in case.missing)


def test_many_members_that_are_too_much_together_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_MAX_BYTES", 100_000)
    case = read_bundle(_changed("notes.json", b"[]" + b" " * 99_000))
    assert case.notes == ()
    assert any("at most 100000 are read" in one.what for one in case.missing)
    assert case.gpus == CASE.gpus


def test_a_bundle_that_is_damaged_or_made_to_do_harm_is_refused_or_has_sections_missing() -> None:
    """What zipfile raises depends on the byte that is wrong: none of it may come out."""
    whole = _written().getvalue()
    refused = 0
    for at in range(0, len(whole), 7):
        for bit in (1, 8, 128):
            changed = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
            try:
                read_bundle(io.BytesIO(changed))
            except BundleError:
                refused += 1
    assert refused


def test_what_is_packed_in_a_way_that_no_bundle_is_is_not_read() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(_written()) as before, zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as after:
        for one in before.namelist():
            after.writestr(one, before.read(one))
    with pytest.raises(BundleError, match="not a bundle of Trilens"):
        read_bundle(packed)


@pytest.mark.parametrize("content", [b"", b"not a zip"], ids=["empty", "text"])
def test_what_is_no_bundle_is_refused(content: bytes) -> None:
    with pytest.raises(BundleError, match="not a bundle"):
        read_bundle(io.BytesIO(content))


def test_a_zip_of_something_else_is_refused() -> None:
    with pytest.raises(BundleError, match="not a bundle of Trilens"):
        read_bundle(_changed("manifest.json", None))
