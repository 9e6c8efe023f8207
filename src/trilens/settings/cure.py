"""Whether Trilens may change anything in a cluster, and what: the policy of `trilens fix`."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field, ValidationError, field_validator, model_validator

from trilens.model.fix import Deed
from trilens.model.xid import XIDS, Cordon
from trilens.settings.explain import explain
from trilens.settings.group import Group, Texts
from trilens.settings.quiet import QuietTexts, TimeZone, read_quiet, zone_of
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.fix import FixTarget

_CLASS: Final = re.compile(r"xid-(\d{1,3})")
_NAMED_CLASSES: Final = {"double-bit-ecc": 48}  # what people call them


class CureSettings(Group):
    policy: Path | None = Field(
        default=None,
        description="A file that says what may be done, where and to how many nodes: [fix.md](fix.md). "
        "Without one nothing is ever changed. Read again on SIGHUP or a POST to `/-/reload`.",
    )


class Allowance(Group):
    """What, and where. Names are patterns as of a shell."""

    do: tuple[Deed, ...] = Field(min_length=1)
    clusters: Texts = ("*",)
    nodes: Texts = ("*",)
    namespaces: Texts = ("*",)
    labels: dict[str, str] = Field(default_factory=dict)  # of the node, the pod or the workload

    def covers(self, deed: Deed, target: FixTarget, labels: Mapping[str, str]) -> bool:
        in_place = (
            _fits(target.name, self.nodes)
            if not target.namespace
            else _fits(target.namespace, self.namespaces)
        )
        return (
            deed in self.do
            and in_place
            and _fits(target.cluster, self.clusters)
            and all(labels.get(name) == value for name, value in self.labels.items())
        )


class CurePolicy(Group):
    allow: tuple[Allowance, ...] = ()
    max_nodes: int = Field(default=1, ge=0)  # cordoned by Trilens at once, in one cluster
    approved: Texts = ()  # classes of faults upon which the server cordons by itself
    quiet: QuietTexts = ()  # when the server does nothing by itself
    timezone: TimeZone = "UTC"

    @field_validator("approved")
    @classmethod
    def _may_close_a_node(cls, classes: tuple[str, ...]) -> tuple[str, ...]:
        for one in classes:
            code = _code_of(one)
            if code is None or code not in XIDS:
                raise ValueError(f"{one!r} is no class of faults: write xid-79, xid-48 or double-bit-ecc")
            if XIDS[code].cordon is Cordon.NO:
                raise ValueError(f"Xid {code} ({XIDS[code].title}) never closes a node: leave it out")
        return classes

    @model_validator(mode="after")
    def _may_cordon(self) -> CurePolicy:
        if self.approved and not any(Deed.CORDON in one.do for one in self.allow):
            raise ValueError("approved is given, but nothing under allow lets a node be cordoned")
        return self

    @property
    def approved_classes(self) -> frozenset[str]:
        """Each by its Xid: `xid-48` also where another name of it is written."""
        return frozenset(f"xid-{_code_of(one)}" for one in self.approved)

    def allows(self, deed: Deed, target: FixTarget, labels: Mapping[str, str]) -> bool:
        return any(one.covers(deed, target, labels) for one in self.allow)

    def is_quiet(self, t_ms: int) -> bool:
        moment = datetime.fromtimestamp(t_ms / 1000, UTC).astimezone(zone_of(self.timezone))
        return any(read_quiet(text).covers(moment) for text in self.quiet)


def read_policy(settings: CureSettings) -> CurePolicy | None:
    """None where nothing may be done. Raises ConfigError."""
    if settings.policy is None:
        return None
    document = read_yaml(settings.policy, "the policy of trilens fix")
    try:
        return CurePolicy.model_validate(document.tree if document.tree is not None else {})
    except ValidationError as e:
        raise explain(e, Place(document), _nearest) from e


def _nearest(place: Place) -> str | None:
    known = [*CurePolicy.model_fields, *Allowance.model_fields]
    found = difflib.get_close_matches(str(place.path[-1]), known, n=1)
    return found[0] if found else None


def _code_of(name: str) -> int | None:
    found = _CLASS.fullmatch(name)
    return int(found[1]) if found is not None else _NAMED_CLASSES.get(name)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
