"""What is asked for the pages of the web app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.routing import Route


class PageApi(Protocol):
    def routes(self) -> list[Route]: ...


@dataclass(frozen=True, slots=True)
class PageApis:
    each: Sequence[PageApi] = ()

    def routes(self) -> list[Route]:
        return [one for api in self.each for one in api.routes()]
