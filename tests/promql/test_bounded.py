"""Matchers added to the text of a query: to every selector, wherever it stands and however it is written."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilens.model.errors import PromQLSyntaxError
from trilens.model.matcher import Matcher
from trilens.promql.bounded import bounded

OWN = (Matcher("team", "=", "nlp"),)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("up", 'up{team="nlp"}'),
        ("up{}", 'up{team="nlp",}'),
        ('up{job="a"}', 'up{team="nlp",job="a"}'),
        ('{__name__=~".+"}', '{team="nlp",__name__=~".+"}'),
        ('{"a.b"}', '{team="nlp","a.b"}'),
        ("rate(up[5m] offset 1h)", 'rate(up{team="nlp"}[5m] offset 1h)'),
        ("up @ 7", 'up{team="nlp"} @ 7'),
        ("sum by (up) (up)", 'sum by (up) (up{team="nlp"})'),
        ("topk(scalar(k), up)", 'topk(scalar(k{team="nlp"}), up{team="nlp"})'),
        ("a + on (team) group_left (x) b", 'a{team="nlp"} + on (team) group_left (x) b{team="nlp"}'),
        ("max_over_time(sum(a)[1h:5m])", 'max_over_time(sum(a{team="nlp"})[1h:5m])'),
        ("a # a comment {\n", 'a{team="nlp"} # a comment {\n'),
        ("a # x\n {b='c'}", "a # x\n {team=\"nlp\",b='c'}"),
        ('label_replace(a, "team", "nlp", "", "")', 'label_replace(a{team="nlp"}, "team", "nlp", "", "")'),
        ("absent(a)", 'absent(a{team="nlp"})'),
        ("-(a) or vector(1)", '-(a{team="nlp"}) or vector(1)'),
        ('"a{"', '"a{"'),
        ("time()", "time()"),
    ],
)
def test_where_they_stand(query: str, expected: str) -> None:
    assert bounded(query, OWN) == expected


def test_a_value_of_any_kind_stays_a_value() -> None:
    assert bounded("a", (Matcher("team", "=", 'x"} or {y="\\\n'),)) == 'a{team="x\\"} or {y=\\"\\\\\\n"}'


def test_what_is_no_query_is_not_sent_on() -> None:
    with pytest.raises(PromQLSyntaxError):
        bounded('a{team="nlp"} or {', OWN)


@given(st.text(alphabet="ab{}()[],=~!\"'` \n#:.@0159my-+*/or", max_size=40))
def test_no_text_gets_around_it(query: str) -> None:
    """It is read again, and each selector looked at, before it leaves: an AssertionError would say so."""
    with suppress(PromQLSyntaxError):
        bounded(query, OWN)
