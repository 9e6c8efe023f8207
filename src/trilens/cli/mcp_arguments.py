"""What the questions of an assistant have in common: their arguments, each with the text that it is told.

Not with `from __future__ import annotations`: types and texts are read when a tool is made.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

from trilens.model.finding import Severity

TIME = "now, -5m, Unix seconds or ISO 8601 in UTC"
Workload: TypeAlias = Annotated[
    str, Field(description="NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME")
]
At: TypeAlias = Annotated[str | None, Field(description=f"The moment asked about (default now): {TIME}")]
Since: TypeAlias = Annotated[str | None, Field(description=f"Go back to this moment: {TIME}")]
OnlyNamespace: TypeAlias = Annotated[str | None, Field(description="Only of this namespace")]
OnlyCluster: TypeAlias = Annotated[str | None, Field(description="Only of this cluster")]
OnlyNode: TypeAlias = Annotated[str | None, Field(description="Only of this node")]
OnlyWorkload: TypeAlias = Annotated[str | None, Field(description="Only of the workload of this name")]
OnlySeverity: TypeAlias = Annotated[Severity | None, Field(description="Only of this severity")]
AlsoOver: TypeAlias = Annotated[bool, Field(description="Also those of the last day that are over")]
