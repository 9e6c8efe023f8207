"""What the OpenAPI document says of backups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.backup_apis import BackupsAnswer, NewBackupAnswer
from trilens.serve.openapi_pieces import operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKUP_TYPES: Final[tuple[type, ...]] = (BackupsAnswer, NewBackupAnswer)


def backup_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    tar = operation("A backup, as one file.", [parameter("name", "path", "Its name.")], {}, failure)
    tar["responses"]["200"] = {
        "description": "A tar file, in pieces.",
        "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
    }
    return {
        "/api/backups": {
            "get": operation("The backups that there are.", [], schemas[BackupsAnswer], failure),
            "post": operation("Begin a backup.", [], schemas[NewBackupAnswer], failure),
        },
        "/api/backups/{name}": {"get": tar},
    }
