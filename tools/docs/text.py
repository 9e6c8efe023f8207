"""Markdown, in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(head), _row(["---"] * len(head)), *(_row([_cell(one) for one in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """As it is, whatever it holds; nothing where there is nothing."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def page(title: str, about: str, *sections: str) -> str:
    return "\n\n".join([f"# {title}", about, *(one.strip("\n") for one in sections)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """A bar ends a cell, a line break the table, and what looks like a tag is gone."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
