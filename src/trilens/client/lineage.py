"""What went into a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from trilens.client.frames import frame
from trilens.client.shapes import PARTS, REPEATED, SHARES
from trilens.client.table import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.client.frames import Frame


@dataclass(frozen=True, slots=True, repr=False)
class Lineage:
    """`parts` are the steps inside, over restarts and runs before it, `thrown_away` those that are not;
    `datasets` is how much of each was seen. `repeated` (samples seen twice in an epoch) is None where there
    were too many batches to look through."""

    run: str
    checkpoint: Mapping[str, Any]
    parts: Frame
    thrown_away: Frame
    datasets: Frame
    repeated: Frame | None
    doubts: Sequence[str]

    @property
    def text(self) -> str:
        return "\n".join([self._title, *self.doubts])

    def __repr__(self) -> str:
        return f"<Lineage of {self._title}>"

    def _repr_html_(self) -> str:
        shown = [f"<h4>{escape(self._title)}</h4>"]
        for title, rows in (("Inside", self.parts), ("Datasets", self.datasets)):
            make = getattr(rows, "to_html", None)  # Arrow has none
            shown.append(f"<p>{title}</p>{make(escape=True) if make else ''}")
        return "\n".join([*shown, *(f"<p>{escape(one)}</p>" for one in self.doubts)])

    @property
    def _title(self) -> str:
        paths = ", ".join(self.checkpoint["paths"])
        return f"checkpoint of step {self.checkpoint['step']} of {self.run}" + (
            f" at {paths}" if paths else ""
        )


def lineage_of(data: Mapping[str, Any], warnings: Sequence[str], *, as_arrow: bool) -> Lineage:
    repeated = data["repeated"]
    return Lineage(
        data["run"],
        data["checkpoint"],
        frame(table_of(PARTS, data["parts"]), as_arrow=as_arrow),
        frame(table_of(PARTS, data["thrown_away"]), as_arrow=as_arrow),
        frame(table_of(SHARES, data["datasets"]), as_arrow=as_arrow),
        frame(table_of(REPEATED, repeated), as_arrow=as_arrow) if repeated is not None else None,
        [*(one["text"] for one in data["doubts"]), *warnings],
    )
