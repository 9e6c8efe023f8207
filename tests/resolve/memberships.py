"""What a resolved pod is in, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.model.workload import Membership


def codes(member: Membership) -> list[str]:
    return [doubt.code for doubt in member.doubts]


def workload(member: Membership) -> tuple[str, str, str]:
    return member.workload.group, member.workload.kind, member.workload.name
