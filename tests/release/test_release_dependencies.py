"""Every dependency has a licence that may be shipped and a reason, and is in the bill of materials."""

from __future__ import annotations

import json

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.release.dependencies import (
    SHIPPED,
    Part,
    brought_along,
    in_web_app,
    installed,
    named,
    shipped,
)
from tools.release.licences import is_allowed, licence_of, not_allowed
from tools.release.page import FILE, page
from tools.release.reasons import REASONS
from tools.release.sbom import written


def said(**fields: str | list[str]) -> dict[str, str | list[str]]:
    """Metadata as a package has them."""
    return {"name": "some-package", **fields}


MIT = "License :: OSI Approved :: MIT License"
APACHE = "License :: OSI Approved :: Apache Software License"


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        (said(license_expression="MIT OR Apache-2.0", classifier=[MIT]), "MIT OR Apache-2.0"),
        (said(classifier=["Programming Language :: Python", MIT], license="see LICENSE"), "MIT"),
        (said(classifier=[MIT, APACHE]), "MIT AND Apache-2.0"),
        (said(license="3-Clause BSD License"), "BSD-3-Clause"),
        (said(license="ISC"), "ISC"),
        (said(license="do what you like"), None),
        (said(), None),
    ],
    ids=["expression", "classifier", "two", "words", "short", "unknown", "nothing"],
)
def test_a_licence_is_read_where_a_package_says_it(
    metadata: dict[str, str | list[str]], licence: str | None
) -> None:
    assert licence_of(metadata) == licence


@pytest.mark.parametrize(
    ("licence", "may_be"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("no such licence", False),
        (None, False),
    ],
)
def test_one_of_several_is_enough_only_where_one_may_choose(licence: str | None, may_be: bool) -> None:
    assert is_allowed(licence) is may_be


def test_all_that_is_shipped_may_be() -> None:
    parts = [*shipped(), *in_web_app()]
    assert {"httpx", "chdb", "h11", "preact"} <= {part.name for part in parts}
    assert not_allowed(parts) == []


def test_what_an_extra_of_a_dependency_brings_counts_too() -> None:
    plain = {part.name for part in brought_along([Requirement("cyclonedx-python-lib")])}
    more = {part.name for part in brought_along([Requirement("cyclonedx-python-lib[json-validation]")])}
    assert "jsonschema" in more - plain
    with pytest.raises(LookupError, match="no-such-package is not installed"):
        brought_along([Requirement("no-such-package")])


def test_every_dependency_has_its_reason() -> None:
    """One without a reason: tools/release/reasons.py, then python -m tools.release page."""
    wanted = {canonicalize_name(one.name) for requirements in named().values() for one in requirements}
    assert wanted - REASONS.keys() == set()
    assert set(SHIPPED) <= named().keys()


def test_the_page_lists_them_all() -> None:
    """Without licences: a new version of a package may call the same one by another name."""

    def rows(text: str) -> list[list[str]]:
        cells = [line.split(" | ") for line in text.splitlines() if line.startswith(("| `", "## "))]
        return [[one[0], one[-1]] for one in cells]

    assert rows(FILE.read_text(encoding="utf-8")) == rows(page())


def test_the_bill_of_materials_is_cyclonedx_and_the_same_twice() -> None:
    python = [Part("httpx", "0.28.1", "BSD-3-Clause", "pypi"), installed("pyyaml")]
    web = [Part("@scope/charts", "2.0.0", None, "npm")]
    text = written(python, web, 1_600_000_000)
    assert text == written(python, web, 1_600_000_000)
    tree = json.loads(text)
    assert tree["bomFormat"] == "CycloneDX"
    assert tree["metadata"]["component"]["name"] == "trilens"
    assert tree["metadata"]["timestamp"].startswith("2020-09-13T12:26:40")
    found = {one["purl"]: one.get("licenses") for one in tree["components"]}
    assert found["pkg:pypi/httpx@0.28.1"] == [{"expression": "BSD-3-Clause"}]
    assert found["pkg:npm/%40scope/charts@2.0.0"] is None
    assert written(python[:1], web, 1_600_000_000) != text
