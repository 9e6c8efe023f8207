"""What is scraped: Prometheus text and OpenMetrics, and files of samples of the past."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from hypothesis import strategies as st

from bench.torture.fuzz.corpora import shared
from bench.torture.fuzz.target import LARGE, MANY, Target
from trilens.collect.exposition import ExpositionParser, check_openmetrics, parse_backfill, parse_samples
from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import SearchStrategy

_NEWEST_MS: Final = 2_000_000_000_000
_NAMES: Final = ("up", "a:b_total", "h_bucket", "h_count", "h_sum", "x_created", "_", "é", '"q.uoted"', "")
_NUMBERS: Final = ("0", "1e400", "-Inf", "NaN", "0x1p3", "1_0", "٣", "1.5e-3", "9" * 400, "+", "")
_TEXTS: Final = ('\\"', "\\n", "\\", '"', "\x00", "\ud7ff", "🙂", "a b", "x" * 300, "{}", ",", "=", "#")


def _take(data: bytes) -> None:
    readings: tuple[Callable[[], object], ...] = (
        *(partial(_as_scrape, data, openmetrics) for openmetrics in (False, True)),
        partial(check_openmetrics, data),
        *(
            partial(parse_backfill, data, openmetrics=openmetrics, first_line=1, newest_ms=_NEWEST_MS)
            for openmetrics in (False, True)
        ),
    )
    refusals = []
    for read in readings:
        try:
            read()
        except TrilensError as e:
            refusals.append(e)
    if len(refusals) == len(readings):
        raise refusals[0]


def _as_scrape(data: bytes, openmetrics: bool) -> None:
    samples, _ = parse_samples(data, openmetrics=openmetrics)
    for sample in samples:
        for name, value in sample.labels:
            (name + value).encode()
    # The same text again goes another way, by the layout of the one before: it must read the same.
    made: list[object] = []

    def known(labels: object) -> int:
        made.append(labels)
        return len(made) - 1

    parser = ExpositionParser(known)
    first, second = (parser.parse(data, openmetrics=openmetrics) for _ in range(2))
    assert np.array_equal(first.refs, second.refs)
    assert first.values.tobytes() == second.values.tobytes()


_PLAIN: Final = b"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA H100"} 0 1763000000000

# TYPE requests counter
requests_total{path="/a\\"b\\\\c\\n",code="200"} 1.5e+03
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1"} 3
wait_seconds_bucket{le="+Inf"} 5
wait_seconds_sum 1.25
wait_seconds_count 5
nothing NaN
"""
_OPENMETRICS: Final = b"""# TYPE requests counter
# UNIT requests_seconds seconds
# HELP requests What came.
requests_total{path="/a"} 17.0 1763000000.000 # {trace_id="abc"} 0.5 1763000000.123
requests_created{path="/a"} 1762999000.5
# TYPE wait histogram
wait_bucket{le="0.1"} 3 # {trace_id="d"} 0.05
wait_bucket{le="+Inf"} 5
wait_sum 1.25
wait_count 5
# TYPE build info
build_info{version="1.0"} 1
# TYPE mode stateset
mode{mode="on"} 1
mode{mode="off"} 0
{"quoted.name",a="b"} 1
# EOF
"""


def _seeds() -> Iterator[bytes]:
    yield _PLAIN
    yield _OPENMETRICS
    # Of one line each, so that changes of it are taken more often.
    yield b'up{job="a"} 1\n'
    yield b'# TYPE a counter\na_total 1 1763000000.5 # {t="x"} 1\n# EOF\n'
    yield from shared("openmetrics/*/metrics")
    yield from (text[:20_000] for text in shared("dcgm/*.prom"))


def _large() -> Iterator[bytes]:
    yield b'a{b="' + b"x" * LARGE + b'"} 1\n# EOF\n'
    yield b'a{b="' + b"\\n" * MANY + b'"} 1\n# EOF\n'
    yield b"a{" + b",".join(b'l%d="v"' % number for number in range(MANY)) + b"} 1\n# EOF\n"
    yield b"a{" + b'b="c",' * MANY + b"} 1\n# EOF\n"
    yield b"a " + b"9" * LARGE + b"\n# EOF\n"
    yield b"a 1\n" * MANY + b"# EOF\n"
    yield (
        b"".join(b"# TYPE t%d counter\nt%d_total 1\n" % (each, each) for each in range(MANY // 5))
        + b"# EOF\n"
    )
    yield b"# HELP a " + b"\\" * LARGE + b"\n# EOF\n"
    yield b"{" * LARGE


def _shaped() -> SearchStrategy[bytes]:
    word = st.sampled_from(_NAMES) | st.text(max_size=8)
    text = st.lists(st.sampled_from(_TEXTS) | st.text(max_size=4), max_size=4).map("".join)
    pair = st.builds("{}={}".format, word, text.map('"{}"'.format) | text)
    labels = st.lists(pair, max_size=4).map(",".join).map("{{{}}}".format) | st.just("")
    number = st.sampled_from(_NUMBERS) | st.floats().map(repr) | st.integers().map(str)
    exemplar = st.builds(" # {} {}".format, labels, number) | st.just("")
    stamp = number.map(" {}".format) | st.just("")
    sample = st.builds("{}{} {}{}{}".format, word, labels, number, stamp, exemplar)
    keyword = st.sampled_from(("HELP", "TYPE", "UNIT", "EOF", "help"))
    kind = st.sampled_from(("counter", "gauge", "histogram", "summary", "info", "stateset", "gaugehistogram"))
    comment = st.builds("# {} {} {}".format, keyword, word, kind | text)
    lines = st.lists(sample | comment | text, max_size=12).map("\n".join)
    ended = st.builds("{}{}".format, lines, st.sampled_from(("", "\n", "\n# EOF\n", "\n# EOF", "\r\n")))
    return ended.map(lambda one: one.encode("utf-8", "surrogatepass"))


EXPOSITION: Final = Target(
    "exposition", "Prometheus text, OpenMetrics, backfills", _take, _seeds, _shaped, _large
)
