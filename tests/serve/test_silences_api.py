"""What /api/silences takes, and what is too much for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from receivers_at_work import plan
from trilens.serve.delivery import DeliveryKeeper
from trilens.serve.questions import clock_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("delivery")
    api = Api(delivery=DeliveryKeeper(plan({}), folder / "queue.sqlite"))
    api.questions = replace(api.questions, max_body=32 << 20)
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        yield client


def told(client: httpx.Client, **changed: Any) -> httpx.Response:
    wanted = {"matchers": ["a=b"], "to_ms": clock_ms() + 60_000, "author": "me", "comment": "why"}
    return client.post("/api/silences", json={**wanted, **changed})


@pytest.mark.parametrize(
    ("matchers", "trouble"),
    [
        ([f"l{number}=x" for number in range(20)], ""),
        ([f"l{number}=x" for number in range(21)], "a silence may have 20 matchers"),
        (["node=" + "x" * 9_995], ""),
        (["node=" + "x" * 9_000, "gpu=" + "x" * 1_000], "matchers may have 10,000 characters together"),
    ],
)
def test_matchers_are_few_and_short(client: httpx.Client, matchers: list[str], trouble: str) -> None:
    answer = told(client, matchers=matchers)
    assert answer.status_code == (400 if trouble else 200), answer.text
    assert answer.json().get("error", "").startswith(trouble)


def test_a_body_without_end_is_not_read(client: httpx.Client) -> None:
    assert told(client, matchers=["a=" + "b" * (1 << 20)]).status_code == 413
