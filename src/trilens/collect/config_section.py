"""What every section of a scrape configuration has in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationInfo


class Section(BaseModel):
    """Read once, compared on reload; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _scalar_text(value: Any) -> Any:
    """YAML reads an unquoted 1 or true as no string; Prometheus takes it as one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _beside_config(path: Path, info: ValidationInfo) -> Path:
    """A relative path is relative to the configuration file."""
    base: Path = (info.context or {}).get("base_dir", Path())
    return base / path


Text = Annotated[str, BeforeValidator(_scalar_text)]
Secret = Annotated[SecretStr, BeforeValidator(_scalar_text)]
ConfigPath = Annotated[Path, AfterValidator(_beside_config)]
