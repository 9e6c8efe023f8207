"""The bill of materials: all that an install of Trilens has, and what is in its web app, as CycloneDX."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from tools.release.dependencies import in_web_app, shipped
from trilens import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.release.dependencies import Part

_OURS: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # the name space of addresses


def sbom(made_s: int) -> str:
    """The same for the same packages and time; raises ValueError if it would not be as the standard wants."""
    return written(shipped(), in_web_app(), made_s)


def written(python: Sequence[Part], web: Sequence[Part], made_s: int) -> str:
    bom = Bom()
    ours = Component(
        name="trilens",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref=f"trilens@{__version__}",
        purl=PackageURL("pypi", name="trilens", version=__version__),
        licenses=[LicenseExpression("Apache-2.0")],
        supplier=OrganizationalEntity(name="Trilens"),
    )
    bom.metadata.component = ours
    bom.metadata.timestamp = datetime.fromtimestamp(made_s, UTC)
    parts = [_component(one) for one in (*python, *web)]
    bom.components.update(parts)
    bom.register_dependency(ours, parts)
    named = json.dumps(sorted(part.url for part in (*python, *web)))
    bom.serial_number = uuid.uuid5(_OURS, f"trilens@{__version__} {made_s} {named}")
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    from cyclonedx.validation.json import JsonStrictValidator  # seconds, and few need it

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"this is no CycloneDX: {problem}")
    return text + "\n"


def _component(part: Part) -> Component:
    extra: dict[str, Any] = (
        {"licenses": [LicenseExpression(part.licence)]} if part.licence is not None else {}
    )
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.LIBRARY,
        bom_ref=part.url,
        purl=PackageURL.from_string(part.url),
        **extra,
    )
