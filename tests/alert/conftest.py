"""One store for the tests of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rules_at_work import Fleet
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("rules")), upkeep=False)
    yield opened
    opened.close()


@pytest.fixture
def fleet(store: Store) -> Fleet:
    return Fleet(store)
