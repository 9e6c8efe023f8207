"""What every group of settings has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr, model_validator

from trilens.model.errors import ConfigError
from trilens.settings.files import read_text
from trilens.settings.header import UNSENDABLE, is_sendable

if TYPE_CHECKING:
    from pathlib import Path


class Group(BaseModel):
    """Read once, never changed; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def _itself_or_by_file(self) -> Self:
        """One of two would count, and nobody could tell which."""
        for name in type(self).model_fields:
            if getattr(self, name) is not None and getattr(self, by_file(name), None) is not None:
                raise ValueError(f"give {name} or {by_file(name)}, not both")
        return self


def by_file(name: str) -> str:
    """The setting that names a file with the value of this one."""
    return f"{name}_file"


def _split(value: Any) -> Any:
    """A list in a file, one comma-separated text in the environment."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]


def _as_word(value: Any) -> Any:
    """YAML reads an unquoted `on` or `off` as a truth value."""
    return ("on" if value else "off") if isinstance(value, bool) else value


AsWord = BeforeValidator(_as_word)


def _check_sendable(secret: SecretStr) -> SecretStr:
    if not is_sendable(secret.get_secret_value()):
        raise ValueError(UNSENDABLE)
    return secret


HeaderSecret = Annotated[SecretStr, AfterValidator(_check_sendable)]


def read_header_secret(value: SecretStr | None, file: Path | None, what: str) -> str | None:
    secret = read_secret(value, file, what)
    if secret is not None and not is_sendable(secret):
        raise ConfigError(f"{what} {UNSENDABLE}")
    return secret


def read_secret(value: SecretStr | None, file: Path | None, what: str) -> str | None:
    """A secret given inline or by file. The file is read each time: mounted secrets rotate."""
    if value is not None:
        if not value.get_secret_value().strip():
            raise ConfigError(f"{what} is empty")  # an unset variable must not open the door
        return value.get_secret_value()
    if file is None:
        return None
    secret = read_text(file, f"{what} from").strip()
    if not secret:
        raise ConfigError(f"{what} file {file} is empty")
    return secret
