"""What a program may use of the SDK is what the docs say, and the other way round."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import trilens
from trilens.sdk import options

DOCS = Path(__file__).parents[2] / "docs"
SDK = "sdk.md"
FOR_OURSELVES = {"last_sign_ns", "leave_to_parent"}  # what the process calls when it forks, stalls or ends
# Where each public module is described.
PAGES = {"trilens": SDK, "trilens.serving": "serving.md"}


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])", text) is not None


def test_the_package_offers_this() -> None:
    """A name that is added or taken away is a change for every program: it is made here too, on purpose."""
    assert sorted(trilens.__all__) == ["Run", "init", "latest_run"]


@pytest.mark.parametrize("module", sorted(PAGES))
def test_every_public_name_is_documented(module: str) -> None:
    text = text_of(PAGES[module])
    names: list[str] = importlib.import_module(module).__all__
    assert [name for name in names if not is_named(name, text)] == []


def test_everything_of_a_run_is_documented() -> None:
    text = text_of(SDK)
    names = {name for name in vars(trilens.Run) if not name.startswith("_")} - FOR_OURSELVES
    assert sorted(name for name in names if not is_named(name, text)) == []


def test_every_argument_of_init_is_documented() -> None:
    text = text_of(SDK)
    assert [name for name in inspect.signature(trilens.init).parameters if not is_named(name, text)] == []


def test_every_variable_is_documented() -> None:
    text = text_of(SDK)
    variables = set(re.findall(r'"(TRILENS_[A-Z_]+)"', Path(options.__file__).read_text(encoding="utf-8")))
    assert "TRILENS_SERVER" in variables
    assert sorted(name for name in variables if name not in text) == []
