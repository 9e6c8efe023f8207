"""Budgets: whose, how much, and what makes no sense."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from trilens.model.errors import ConfigError
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path


def read(tmp_path: Path, limits: str):
    file = tmp_path / "trilens.yaml"
    file.write_text(f"budgets:\n  limits: [{limits}]\n")
    return load_settings(file, environ={}).budgets.limits


def test_budgets_of_teams_namespaces_and_clusters(tmp_path: Path) -> None:
    limits = read(
        tmp_path,
        "{team: vision, amount: 25000, currency: USD, period: month}, "
        "{namespace: ml, amount: 0.1, currency: EUR}, {cluster: lab, amount: '1250.50', currency: USD}",
    )
    assert [(one.of, one.amount, one.currency, one.period) for one in limits] == [
        (("team", "vision"), Decimal(25000), "USD", "month"),
        (("namespace", "ml"), Decimal("0.1"), "EUR", "month"),
        (("cluster", "lab"), Decimal("1250.50"), "USD", "month"),
    ]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("{team: a, amount: -5, currency: USD}", "limits[0].amount: a budget is more than 0"),
        ("{team: a, amount: 0, currency: USD}", "a budget is more than 0"),
        ("{team: a, amount: 1e-12, currency: USD}", "a budget of 1E-12 cannot be meant"),
        ("{team: a, amount: '1e500', currency: USD}", "a budget of 1E+500 cannot be meant"),
        ("{team: a, amount: lots, currency: USD}", "'lots' is not an amount"),
        ("{team: a, amount: true, currency: USD}", "an amount is a number"),
        ("{team: a, amount: .inf, currency: USD}", "should be a finite number"),
        ("{team: a, amount: 5}", "limits[0].currency: is missing"),
        ("{team: a, amount: 5, currency: dollars}", "'dollars' is not a currency"),
        ("{amount: 5, currency: USD}", "exactly one: name `team`, `namespace` or `cluster`"),
        ("{team: a, cluster: b, amount: 5, currency: USD}", "exactly one"),
        ("{team: a, amount: 5, currency: USD, period: week}", "period: Input should be 'month'"),
        (
            "{team: a, amount: 5, currency: USD}, {team: a, amount: 6, currency: USD}",
            "the team 'a' has a second budget",
        ),
    ],
    ids=[
        "negative",
        "zero",
        "dust",
        "astronomical",
        "word",
        "truth",
        "endless",
        "no-currency",
        "currency",
        "nobody",
        "two",
        "week",
        "twice",
    ],
)
def test_what_makes_no_sense_is_said_with_its_place(tmp_path: Path, limits: str, said: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read(tmp_path, limits)
    assert said in str(failed.value)
    assert "trilens.yaml:2:" in str(failed.value)
