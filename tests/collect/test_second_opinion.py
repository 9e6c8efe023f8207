"""What a real Prometheus makes of the same texts."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from recording_sink import RecordingSink

from http_target import OPENMETRICS, TEXT, HttpTarget
from servers import free_port, require_corpus, require_server, running
from trilens.collect.config import load_scrape_configs
from trilens.collect.exposition import parse_samples
from trilens.collect.manager import ScrapeManager
from trilens.model.errors import ExpositionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Texts at the edge of the format; whether they parse is Prometheus's to say.
TEXTS = [
    b"a 1\n",
    b"a 1",
    b"",
    b"\n\na 1\n\n",
    b"   \na 1\n",
    b"a 1\r\n",
    b"# HELP a x\r\na 1\n",
    b"# TYPE a gauge\r\na 1\n",
    b"a\t1\n",
    b"a  1   \n",
    b" a 1\n",
    b'a{x="1"}1\n',
    b'a{x="1",} 1\n',
    b'a{x="1",,} 1\n',
    b'a{,x="1"} 1\n',
    b"a{,} 1\n",
    b"a{} 1\n",
    b'a { x = "1" , y = "2" } 1\n',
    b'a{x="1"y="2"} 1\n',
    b"a{x='1'} 1\n",
    b"a{x=1} 1\n",
    b'a{x="1} 1\n',
    b'a{x="1\ny"} 1\n',
    b'a{x="\\q"} 1\n',
    b'a{x="\xff"} 1\n',
    b'a{x="1",x="2"} 1\n',
    b'{x="1"} 1\n',
    b"a.b 1\n",
    b"1a 1\n",
    b":a 1\n",
    b'a{:x="1"} 1\n',
    b"a +5\n",
    b"a .5\n",
    b"a 5.\n",
    b"a 1e5\n",
    b"a 1E+5\n",
    b"a 1e\n",
    b"a 1_000\n",
    b"a 0x10\n",
    b"a 0x1p4\n",
    b"a nan\n",
    b"a NAN\n",
    b"a inf\n",
    b"a -Infinity\n",
    b"a infi\n",
    b"a\n",
    b"a \n",
    b"a 1 2\n",
    b"a 1 1700000000000\n",
    b"a 1 1.5\n",
    b"a 1 2 3\n",
    b"a 1 # {} 1\n",
    b"#\na 1\n",
    b"#comment\na 1\n",
    b"# TYPE\na 1\n",
    b"# TYPE a\na 1\n",
    b"# TYPE a gauge\n# TYPE a counter\na 1\n",
    b"# TYPE a nonsense\na 1\n",
    b"# TYPE a gauge \na 1\n",
    b"# TYPE  a  gauge\na 1\n",
    b"# TYPE  a gauge\na 1\n",
    b"#  TYPE a gauge\na 1\n",
    b"#\tTYPE\ta\tgauge\na 1\n",
    b"#TYPE a nonsense\na 1\n",
    b"# TYPE a, gauge\na 1\n",
    b"# type a nonsense\na 1\n",
    b"# UNIT a nonsense\na 1\n",
    b"# TYPEa nonsense\na 1\n",
    b" # TYPE a gauge\na 1\n",
    b"# HELP\na 1\n",
    b"# HELP a\na 1\n",
    b"# EOF\na 1\n",
    b"<html>\n",
]  # fmt: skip

# A line is a line here: a label value with a newline in it is not put together again.
KNOWN_DIFFERENCES = {b'a{x="1\ny"} 1\n': "up"}


def ours(body: bytes, *, openmetrics: bool = False) -> bool:
    try:
        parse_samples(body, openmetrics=openmetrics)
    except ExpositionError:
        return False
    return True


class Api:
    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **params: str) -> Any:
        with urllib.request.urlopen(
            f"{self._url}{path}?{urllib.parse.urlencode(params)}", timeout=10
        ) as answer:
            return json.load(answer)["data"]

    def wait(self, path: str, done: Callable[[Any], bool], timeout_s: float = 60, **params: str) -> Any:
        # Another program gives no event to wait for, so ask again until it answers as hoped.
        deadline = time.monotonic() + timeout_s
        while not done(data := self.get(path, **params)):
            assert time.monotonic() < deadline, data
            time.sleep(0.1)
        return data


@pytest.fixture
def target() -> Iterator[HttpTarget]:
    with HttpTarget() as started:
        yield started


@contextmanager
def prometheus_running(document: dict[str, Any], tmp_path: Path) -> Iterator[Api]:
    config, port = tmp_path / "prometheus.yml", free_port()
    config.write_text(json.dumps(document))
    command = [
        require_server("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/-/ready", log=tmp_path / "log"):
        yield Api(url)


def healths(
    target: HttpTarget, texts: dict[str, bytes], tmp_path: Path, content_type: str = TEXT
) -> dict[str, str]:
    """Prometheus's health for each text, served under the path of its name."""
    for name, text in texts.items():
        target.say(text, f"/{name}", content_type=content_type)
    jobs = [
        {"job_name": name, "metrics_path": f"/{name}", "static_configs": [{"targets": [target.address]}]}
        for name in texts
    ]
    document = {"global": {"scrape_interval": "4s", "scrape_timeout": "4s"}, "scrape_configs": jobs}
    with prometheus_running(document, tmp_path) as api:
        data = api.wait(
            "/api/v1/targets",
            lambda data: (
                len(data["activeTargets"]) == len(texts)
                and all(t["health"] != "unknown" for t in data["activeTargets"])
            ),
        )
    return {t["labels"]["job"]: t["health"] for t in data["activeTargets"]}


def test_prometheus_takes_the_texts_that_we_take(target: HttpTarget, tmp_path: Path) -> None:
    texts = {str(i): text for i, text in enumerate(TEXTS)}
    health = healths(target, texts, tmp_path)
    differing = {text: health[name] for name, text in texts.items() if (health[name] == "up") != ours(text)}
    assert differing == KNOWN_DIFFERENCES


def test_prometheus_takes_all_openmetrics_that_we_take(target: HttpTarget, tmp_path: Path) -> None:
    """We may be stricter, as the corpus of OpenMetrics asks; never the other way round."""
    folders = sorted(require_corpus("openmetrics").iterdir())
    texts = {folder.name: (folder / "metrics").read_bytes() for folder in folders}
    health = healths(target, texts, tmp_path, OPENMETRICS)
    lenient = [n for n, text in texts.items() if health[n] != "up" and ours(text, openmetrics=True)]
    assert lenient == []


SCRAPE = {
    "global": {"scrape_interval": "1s"},
    "scrape_configs": [
        {
            "job_name": "j",
            "metric_relabel_configs": [
                {"source_labels": ["__name__"], "regex": "go_memstats_.*", "action": "drop"},
                {
                    "source_labels": ["UUID"],
                    "regex": "GPU-(.{8}).*",
                    "target_label": "short",
                    "replacement": "u-$1",
                },
                {"action": "labelmap", "regex": "Host(.*)", "replacement": "host_$1"},
                {"action": "labeldrop", "regex": "DCGM_.*"},
                {"source_labels": ["gpu"], "action": "hashmod", "modulus": 4, "target_label": "shard"},
            ],
        }
    ],
}


def comparable(labels: dict[str, str]) -> tuple[tuple[str, str | float], ...]:
    """2.42 keeps the spelling of bounds, which we follow 3 in normalising."""
    bounds = ("le", "quantile")
    return tuple(sorted((n, float(v) if n in bounds else v) for n, v in labels.items()))


def test_both_store_the_same_series_and_values(target: HttpTarget, tmp_path: Path) -> None:
    texts = [
        require_corpus("textparse", "alltypes.237mfs.prom.txt"),
        require_corpus("dcgm", "v1.35_kops.prom"),
        require_corpus("dcgm", "h100x8_eks_aicr.prom"),
    ]
    body = b"".join(text.read_bytes() for text in texts)
    target.say(body + b'clash{job="x",exported_job="y",instance=""} 1\n')
    document = json.loads(json.dumps(SCRAPE))
    labels = {"rack": "r1", "Hostname": "of the target"}
    document["scrape_configs"][0]["static_configs"] = [{"targets": [target.address], "labels": labels}]
    sink = RecordingSink()
    manager = ScrapeManager(load_scrape_configs(document, tmp_path), sink)
    manager.start()
    try:
        with prometheus_running(document, tmp_path) as api:
            data = api.wait("/api/v1/query", lambda d: len(d["result"]) > 10, query='{job="j"}')
            sink.wait_for(lambda s: s.of("up"))
    finally:
        manager.stop()
    theirs = {comparable(r["metric"]): float(r["value"][1]) for r in data["result"]}
    mine = {comparable(s.labels): s.value for s in sink.samples}
    assert mine.keys() == theirs.keys()
    timed = {"scrape_duration_seconds", "scrape_series_added"}
    differing = {
        key: (value, theirs[key])
        for key, value in mine.items()
        if dict(key)["__name__"] not in timed and str(float(value)) != str(theirs[key])
    }
    assert differing == {}
    assert len(mine) > 1000
