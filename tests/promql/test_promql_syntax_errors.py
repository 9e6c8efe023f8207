"""What is said of queries that are no PromQL: where, what was found, and what was expected.

The table stands in syntax_errors.txt; a real Prometheus, where there is one, must agree with its positions.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

import promql_parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_sources import prometheus
from trilens.model.errors import PromQLEvalError, PromQLSyntaxError, PromQLUnsupported
from trilens.model.query import QueryGuard
from trilens.promql import nodes
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.promql.parse import parse
from trilens.promql.signatures import SIGNATURES, Signature
from trilens.promql.tokens import tokenize


class Fault(NamedTuple):
    query: str
    position: str
    message: str
    in_prometheus: str


def _table() -> list[Fault]:
    text = Path(__file__).with_name("syntax_errors.txt").read_text(encoding="utf-8")
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line.strip())
        elif line and line != "#" and not line.startswith("# "):
            blocks.append([line])
    faults = []
    for query, said, *elsewhere in blocks:
        position, message = said.split(": ", 1)
        there = elsewhere[0].removeprefix("Prometheus: ") if elsewhere else position
        there = "" if there == "reads it" else there
        faults.append(Fault(query.replace(r"\n", "\n"), position, message, there))
    return faults


TABLE = _table()


@pytest.mark.parametrize("fault", TABLE, ids=lambda fault: repr(fault.query))
def test_the_fault_is_named_and_pointed_at(fault: Fault) -> None:
    with pytest.raises(PromQLSyntaxError) as caught:
        parse(fault.query)
    assert caught.value.message == f"{fault.position}: parse error: {fault.message}"


def test_prometheus_points_at_the_same_places(tmp_path: Path) -> None:
    with prometheus(tmp_path) as url:
        elsewhere = [
            (fault, at) for fault in TABLE if (at := _refused(url, fault.query)) != fault.in_prometheus
        ]
    assert not elsewhere
    assert sum(fault.position == fault.in_prometheus for fault in TABLE) > 0.9 * len(TABLE)


def _refused(url: str, query: str) -> str:
    """Where Prometheus sees the fault; nothing if it sees none."""
    try:
        form = urllib.parse.urlencode({"query": query}).encode()
        with urllib.request.urlopen(f"{url}/api/v1/query", form):
            return ""
    except urllib.error.HTTPError as e:
        found = re.search(r"(\d+:\d+): parse error", json.load(e)["error"])
        return found[1] if found else ""


def test_an_empty_query() -> None:
    with pytest.raises(PromQLSyntaxError, match="no expression found in input"):
        parse("")


@pytest.mark.parametrize(("name", "signature"), SIGNATURES.items())
def test_signatures_are_those_of_the_parser(name: str, signature: Signature) -> None:
    """Both check calls: what one lets through the other must not refuse."""
    samples = {"vector": "up", "matrix": "up[5m]", "scalar": "1", "string": '"a"'}
    most = signature.most if signature.most is not None else len(signature.args) + 3
    for count in range(signature.least, most + 1):
        expr = parse(f"{name}({', '.join(samples[signature.kind(i)] for i in range(count))})")
        assert nodes.value_kind(expr) == signature.returns
    made = promql_parser.parse(
        f"{name}({', '.join(samples[signature.kind(i)] for i in range(signature.least))})"
    )
    returns = {"Vector": "vector", "Scalar": "scalar"}[str(made.func.return_type).split(".")[-1]]
    assert returns == signature.returns
    for count in {signature.least - 1, signature.most + 1 if signature.most is not None else -1} - {-1}:
        with pytest.raises(PromQLSyntaxError, match="argument"):
            parse(f"{name}({', '.join(['up'] * count)})")


VALID = [
    'sum by (job, "a.b") (rate(foo{a="b", c=~"d|e"}[5m] offset -1m @ 7)) > bool 0.5',
    "topk without (a) (3, -foo) / on (a) group_left (b) fill (-1) (bar unless ignoring (c) baz)",
    'label_replace(foo, "dst", "$1", "src", "(.*)") or vector(time())',
    'max_over_time(sum(foo{__name__!="x"})[1h:5m] @ end()) ^ 2 atan2 {"up", x!~"y"}',
    "quantile_over_time(0.9, (foo)[5m:] offset 1h30m) + count_values(`v`, 'x' == bool 'y')",
    "histogram_quantile(0.9, sum(rate(foo_bucket[5m])) by (le)) # a comment",
]
PIECES = sorted(
    {token.text for query in VALID for token in tokenize(query)} | {"$", "é", "!", '"', "1_0", ";"}
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid query of which a token or a character is missing, too much, or another."""
    query = draw(st.sampled_from(VALID))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(query)))
        return query[:at] + draw(st.sampled_from(["", query[at + 1 :], query[at:] + query[:at]]))
    pieces = [token.text for token in tokenize(query)]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(pieces) - 1))
        pieces[at : at + draw(st.integers(0, 1))] = draw(
            st.sampled_from([[], [draw(st.sampled_from(PIECES))]])
        )
        if not pieces:
            break
    return draw(st.sampled_from([" ", "\n"])).join(pieces)


def _engine() -> Engine:
    source = MemorySource()
    for name in ("foo", "bar", "foo_bucket"):
        source.add({"__name__": name, "a": "b", "le": "1"}, [(0, 1.0), (30_000, 2.0), (60_000, 4.0)])
    return Engine(source)


ENGINE = _engine()


@settings(max_examples=500, deadline=None)
@given(mutated())
def test_a_spoilt_query_is_answered_or_refused_with_a_position_inside_it(query: str) -> None:
    try:
        ENGINE.instant(query, 60_000, QueryGuard())
    except PromQLSyntaxError as e:
        assert e.position is not None
        assert 0 <= e.position <= len(query)
        assert "cannot be read" not in e.message, "the grammar let through what the parser refuses"
    except (PromQLUnsupported, PromQLEvalError):
        pass
