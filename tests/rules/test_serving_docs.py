"""docs/serving.md names what is recorded, read and exposed, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from recording_rules import shipped_rules
from trilens.sdk.serving.program import ServingProgram

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
RULES = tuple(shipped_rules("serving.yml", "serving-health.yml"))
# Steps on the way, told by no page: they may change with any version.
INNER = re.compile(
    r".*_scraped:\w+|.*:bucket|.*_(sum|count):per_second|trilens:inference_(pod|scraped|server|server_known):info|trilens:inference_proxied_\w+:\w+"
)


def test_every_record_is_named_and_nothing_else() -> None:
    named = set(re.findall(r"trilens:inference_\w+:\w+", PAGE))
    assert named == {rule.record for rule in RULES if not INNER.fullmatch(rule.record)}


def test_every_series_that_the_rules_read_is_named() -> None:
    read = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for rule in RULES
        for name in re.findall(
            r"(?<![:\w])(?:vllm:|sglang:|nv_inference_|tgi_|inference_|gen_ai_server_|istio_|revision_|kn_|nginx_"
            r"|envoy_cluster_up)\w+",
            rule.expr,
        )
    }
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"`([\w:]+)`", PAGE)}
    assert len(read) > 30
    assert read - named == set()


def test_every_metric_of_the_middleware_is_named() -> None:
    program = ServingProgram()
    program.needs_port = False
    with program.begin("m", "1") as request:
        request.tokens(prompt=1, completion=3)
        request.first_token()
    program.begin("m", "1").end("500", "broken")
    with program.queue(None, "q", "", "").wait():
        pass
    told = set(re.findall(r"^# TYPE (\w+) ", program.text(), re.MULTILINE))
    assert len(told) == 9
    assert told - set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set()
