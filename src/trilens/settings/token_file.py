"""Tokens that a file declares: whose they are, what they may do, and the hash of each secret."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, ValidationError, model_validator

from trilens.model.access_token import AccessToken
from trilens.model.grants import grant_of
from trilens.settings.explain import explain
from trilens.settings.group import Group, Texts
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from pathlib import Path

_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DeclaredToken(Group):
    id: Annotated[str, Field(pattern=r"^[0-9a-zA-Z-]{1,64}$")]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    sha256: _Hex
    rights: Texts
    clusters: Texts = ()
    teams: Texts = ()
    expires: datetime | date | None = None  # UTC unless it says otherwise; a date is its beginning

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        grant_of(self.rights, self.clusters, self.teams)
        return self

    def as_token(self) -> AccessToken:
        return AccessToken(
            self.id,
            self.name,
            self.sha256,
            grant_of(self.rights, self.clusters, self.teams),
            expires_ms=_ms(self.expires) if self.expires is not None else None,
            is_declared=True,
        )


class _TokensFile(Group):
    tokens: tuple[DeclaredToken, ...] | None = None  # none where the last one was taken out

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        ids = Counter(one.id for one in self.tokens or ())
        if twice := [id for id, count in ids.items() if count > 1]:
            raise ValueError(f"the id {twice[0]!r} is given twice, and one of them would count")
        return self


def read_token_file(file: Path) -> list[AccessToken]:
    """Raises ConfigError."""
    document = read_yaml(file, "the tokens file", as_written=True)
    try:
        found = _TokensFile.model_validate(document.tree if document.tree is not None else {})
    except ValidationError as e:
        raise explain(e, Place(document), lambda _place: None) from e
    return [one.as_token() for one in found.tokens or ()]


def _ms(moment: datetime | date) -> int:
    whole = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    aware = whole if whole.tzinfo is not None else whole.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)
