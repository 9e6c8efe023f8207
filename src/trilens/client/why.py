"""Why something is wrong: the verdicts on it, readable in a notebook and as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Verdict = Mapping[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class Why:
    """The surest verdict first. `missing` is what nobody told, and what would bring it."""

    subject: Mapping[str, str]
    verdicts: Sequence[Verdict]
    missing: Sequence[Mapping[str, str]]
    warnings: Sequence[str] = ()

    @property
    def cause(self) -> str | None:
        """Of the surest verdict; None where none can tell."""
        return next((str(one["cause"]) for one in self.verdicts if one["can_tell"]), None)

    @property
    def text(self) -> str:
        return "\n".join([self._title, *(line for one in self.verdicts for line in _lines(one)), *self._rest])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Why {self._title}: {self.cause or 'cannot tell'}>"

    def _repr_html_(self) -> str:
        """Names come from clusters and logs: nothing of them is markup."""
        parts = [f"<h4>{escape(self._title)}</h4>"]
        for one in self.verdicts:
            fixes = "".join(f"<li>{escape(step)}</li>" for step in one["fix"])
            asked = "".join(_html_step(step) for step in one["way"])
            parts.append(
                f"<p><b>{escape(_head(one))}</b><br>{escape(one['text'])}</p>"
                + (f"<ol>{fixes}</ol>" if fixes else "")
                + (f"<details><summary>The way to it</summary><ul>{asked}</ul></details>" if asked else "")
            )
        parts += [f"<p>{escape(line)}</p>" for line in self._rest]
        return "\n".join(parts)

    @property
    def _title(self) -> str:
        inside = f" in {self.subject['namespace']}" if self.subject["namespace"] else ""
        return f"{self.subject['kind']} {self.subject['name']}{inside}"

    @property
    def _rest(self) -> list[str]:
        known = dict.fromkeys(
            f"Not known: {one['what']}. To know it: {one['remedy']}" for one in self.missing
        )
        return [*known, *self.warnings]


def why_of(data: Mapping[str, Any], warnings: Sequence[str]) -> Why:
    missing = [*(one for verdict in data["verdicts"] for one in verdict["missing"]), *data["missing"]]
    return Why(data["subject"], data["verdicts"], missing, warnings)


def _head(verdict: Verdict) -> str:
    named = f"{verdict['cause']} ({verdict['layer']}), {verdict['confidence']:.0%}"
    return named if verdict["can_tell"] else f"cannot tell; perhaps {named}"


def _lines(verdict: Verdict) -> list[str]:
    lines = ["", _head(verdict), f"  {verdict['text']}"]
    if verdict["since_ms"] is not None:
        lines.append(
            f"  since {datetime.fromtimestamp(verdict['since_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
    lines += [f"  do: {step}" for step in verdict["fix"]]
    for step in verdict["way"]:
        lines.append(f"  {step['text']} -> {step['answer']}")
        lines += [f"    {fact['text']}  [{fact['source']}]" for fact in step["facts"]]
    return lines


def _html_step(step: Mapping[str, Any]) -> str:
    facts = "".join(
        f"<li>{escape(fact['text'])} <i>{escape(fact['source'])}</i></li>" for fact in step["facts"]
    )
    return f"<li>{escape(step['text'])} &rarr; <b>{escape(step['answer'])}</b><ul>{facts}</ul></li>"
