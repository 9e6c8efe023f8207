"""What is said of a backup."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.store.backup_manifest import Manifest


def told(path: Path, manifest: Manifest) -> dict[str, Any]:
    """As a server tells it."""
    return {
        "name": path.name,
        "path": str(path),
        "made_ms": manifest.made_ms,
        "bytes": manifest.bytes,
        "files": len(manifest.files),
        "trilens": manifest.trilens,
        "schema": manifest.schema,
        "rows": {table: rows for table, rows in manifest.rows.items() if rows},
    }


def made_sentence(made: dict[str, Any], *, is_here: bool) -> str:
    where = made["path"] if is_here else f"{made['path']} on the server"
    return f"{where}: {made['bytes'] / 1e6:,.1f} MB of {_moment(made)}, {_rows(made)}"


def restored_sentence(made: dict[str, Any], data: Path, schema: int) -> str:
    newer = f"; its schema {made['schema']} became {schema}" if schema != made["schema"] else ""
    return f"{data} is as of {_moment(made)}: {_rows(made)}{newer}"


def valid_again(made: dict[str, Any]) -> str | None:
    """None where nobody has a token or has logged in: the audit knows who logged out."""
    if not {"access_tokens", "audit"} & made["rows"].keys():
        return None
    return f"tokens revoked and logins ended since {_moment(made)} are valid again: trilens token list"


def _rows(made: dict[str, Any]) -> str:
    rows = made["rows"]
    parts = ("samples", "series", "workloads", "runs", "run_steps", "ledger_hours", "incidents")
    shown = [f"{rows[table]:,} {table.replace('_', ' ')}" for table in parts if table in rows]
    others = sum(count for table, count in rows.items() if table not in parts)
    return "rows of " + ", ".join([*shown, f"{others:,} others"])


def _moment(made: dict[str, Any]) -> str:
    return datetime.fromtimestamp(made["made_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
