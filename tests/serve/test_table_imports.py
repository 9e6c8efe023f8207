"""Tables of jobs and usage on their whole way: command, server, store, hours of the ledger, answer."""

from __future__ import annotations

import csv
import io
import json
import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyarrow import parquet

from command_here import trilens_here
from ledger_fleets import no_signals
from memory_api import Api, running
from memory_book import MemoryBook
from servers import require_corpus
from trilens.ledger.booking import Booking
from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.prices.book import default_book
from trilens.model.imported import ImportedJob
from trilens.model.ledger import HOUR_MS
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.ledger.source import Signals

MAY = (1_588_291_200_000, 1_590_969_600_000)  # of 2020
OCTOBER = 1_790_812_800_000  # 2026-10-01
SEPTEMBER = OCTOBER - 24 * HOUR_MS  # its last day


class NoSignals:
    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        return no_signals()


class Served:
    def __init__(self, url: str, api: Api, store: Store) -> None:
        self.url = url
        self.api = api
        self.store = store

    def imports(self, kind: str, file: Path, *options: str) -> dict[str, Any]:
        answer = trilens_here("import", kind, str(file), "--server", self.url, "--json", *options)
        assert answer.returncode == 0, answer.stderr
        told: dict[str, Any] = json.loads(answer.stdout)
        return told

    def book_touched(self) -> None:
        """What the keeper does with hours that an import touched."""
        hours = sorted(set(self.api.imported_hours))
        self.api.imported_hours.clear()
        facts = self.store.ledger_facts
        booking = Booking(facts, NoSignals(), KnownLosses(facts, 0))
        now_ms = time.time_ns() // 1_000_000
        assert isinstance(self.api.book, MemoryBook)
        for computed in booking.hours(hours[0], hours[-1] + HOUR_MS, default_book(), now_ms):
            self.api.book.write(computed.hour)

    def cost(self, *by: str, at: tuple[int, int]) -> dict[tuple[str, ...], dict[str, Any]]:
        span = ("--from", str(at[0] // 1000), "--to", str(at[1] // 1000))
        asked = [part for name in by for part in ("--by", name)]
        answer = trilens_here("cost", *asked, *span, "--json", "--server", self.url)
        assert answer.returncode == 0, answer.stderr
        lines = json.loads(answer.stdout)["lines"]
        return {tuple(line["keys"][name] for name in by): line["now"] for line in lines if line["now"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    kept = timedelta(days=4000)
    options = StoreOptions(data_dir=tmp_path_factory.mktemp("imports") / "data", retention_ledger=kept)
    with closing(Store.open(options, upkeep=False)) as store:
        overrides = {"storage.retention_ledger": kept}
        api = Api(book=MemoryBook(), imports=store.imports, facts=store.ledger_facts, overrides=overrides)
        with running(api.build()) as url:
            yield Served(url, api, store)


def test_two_clusters_come_out_at_their_gpu_hours(served: Served) -> None:
    """Known to the minute: 41,518.6 GPU-hours at a utilisation of 0.872, and 29,869.1 at 0.627."""
    columns = "time=time,in_use=running_gpu_num,there=total_gpu_num"
    for name in ("vcLJZ", "vc3sl"):
        file = require_corpus("gpu-hours", f"helios_{name}.csv")
        told = served.imports("usage", file, "--map", columns, "--source", name, "--gpu-model", "V100")
        assert (told["points"], told["changed_hours"], told["expired"]) == (44_640, 744, 0)
    served.book_touched()
    lines = served.cost("node", "bucket", at=MAY)
    minutes = {keys: line["gpu_ms"] / 60_000 for keys, line in lines.items()}
    assert minutes["import/vcLJZ/V100", "productive"] == 2_491_116
    assert minutes["import/vc3sl/V100", "productive"] == 1_792_147
    for name, utilisation in (("vcLJZ", 0.872), ("vc3sl", 0.627)):
        used, free = (minutes[f"import/{name}/V100", bucket] for bucket in ("productive", "unallocated"))
        assert used + free == 64 * 31 * 24 * 60
        assert round(used / (used + free), 3) == utilisation


def test_jobs_count_for_their_teams_and_again_for_nothing(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "slurm.txt"
    rows = [
        "JobID|User|Account|Partition|State|Submit|Start|End|AllocTRES",
        "1|ada|nlp|gold|COMPLETED|2026-10-01T00:00:00|2026-10-01T01:30:00|2026-10-01T03:00:00|gres/gpu=8",
        "2|alan|vision|gold|RUNNING|2026-10-01T00:00:00|2026-10-01T02:00:00|Unknown|gres/gpu=1",
    ]
    file.write_text("\n".join(rows), encoding="utf-8")
    assert served.imports("jobs", file)["changed_hours"] == 2
    served.book_touched()
    teams = {
        key[0]: line["gpu_ms"]
        for key, line in served.cost("team", at=(OCTOBER, OCTOBER + 4 * HOUR_MS)).items()
    }
    assert teams == {"nlp": 12 * HOUR_MS, "vision": HOUR_MS}
    again = served.imports("jobs", file)
    assert (again["jobs"], again["changed_hours"]) == (2, 0)
    assert served.api.imported_hours == []

    # The job that ran has ended, an hour later: it replaces itself, and those hours are told of.
    file.write_text("\n".join(rows).replace("Unknown", "2026-10-01T04:00:00"), encoding="utf-8")
    assert served.imports("jobs", file)["changed_hours"] == 2
    assert sorted(served.api.imported_hours) == [OCTOBER + 2 * HOUR_MS, OCTOBER + 3 * HOUR_MS]
    said = trilens_here("import", "jobs", str(file), "--server", served.url)
    assert said.stdout.splitlines()[-1] == "it was all there already: nothing changed"


def test_what_is_too_old_is_not_said_to_be_there(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    file.write_text("at,used\n1990-01-01T00:00:00Z,1\n1990-01-01T00:01:00Z,1\n", encoding="utf-8")
    said = trilens_here("import", "usage", str(file), "--map", "time=at,in_use=used", "--server", served.url)
    assert (said.returncode, "it was all there" in said.stdout) == (1, False)
    assert "warning: nothing was taken: 2 rows are older than the ledger keeps them" in said.stderr


def test_a_requeued_job_is_two_lives(served: Served, tmp_path: Path) -> None:
    """A table that has only its last life replaces that one."""
    file = tmp_path / "requeued.txt"
    head = "JobID|Start|End|State|AllocTRES\n"
    first = "7|2026-09-01T00:00:00|2026-09-01T01:00:00|NODE_FAIL|gres/gpu=2\n"
    last = "7|2026-09-01T02:00:00|2026-09-01T03:00:00|COMPLETED|gres/gpu=2\n"
    for rows in (first, first + last, last):
        file.write_text(head + rows, encoding="utf-8")
        served.imports("jobs", file)
    began = 1_788_220_800_000
    kept = served.store.imports.jobs_during(began, began + 4 * HOUR_MS)
    assert [(job.job, job.state) for job in kept] == [(f"7/{began // 1000}", "NODE_FAIL"), ("7", "COMPLETED")]
    served.api.imported_hours.clear()


def test_over_http(served: Served) -> None:
    jobs, usage = (f"{served.url}/api/v1/import/{kind}" for kind in ("jobs", "usage"))
    whose = {"source": "s", "cluster": "c"}
    good = {"job": "1", "start_ms": OCTOBER, "end_ms": OCTOBER + 1, "gpus": "1/7", "team": "a", "user": "u"}
    old = good | {"job": "0", "start_ms": 0, "end_ms": 1}
    body = "\n".join(json.dumps(one) for one in (good, old))
    taken = httpx.post(jobs, params=whose, content=body).json()["data"]
    assert taken == {"rows": 1, "expired": 1, "changed": [[OCTOBER, OCTOBER + HOUR_MS]]}
    for path, row, says in (
        (jobs, good | {"gpus": 1.5}, 'line 7: `gpus` is a number of GPUs as text: "8", "0.5" or "1/7"'),
        (jobs, good | {"end_ms": 5}, "line 7: the job ends before it begins"),
        (jobs, good | {"start_ms": 1.5}, "line 7: `start_ms` is not a whole number of milliseconds"),
        (jobs, good | {"color": "red"}, "line 7: unknown field 'color'"),
        (jobs, [], "line 7: not a JSON object"),
        (
            usage,
            {"t_ms": 5, "ms": 0, "in_use": "1"},
            "line 7: a row of usage needs a `t_ms` and an `ms` above 0",
        ),
        (usage, {"t_ms": 5, "ms": 1, "in_use": "NaN"}, "line 7: 'NaN' is not a number of GPUs"),
    ):
        answer = httpx.post(path, params=whose | {"first_line": 7}, content=json.dumps(row))
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(says)
    assert "missing parameter" in httpx.post(jobs, params={"source": "s"}, content=body).json()["error"]
    assert "is no name" in httpx.post(jobs, params=whose | {"source": "a/b"}, content=body).json()["error"]
    assert httpx.post(usage, params=whose, content=b"x" * (1 << 21)).status_code == 413


def test_focus_over_http(served: Served, tmp_path: Path) -> None:
    """An hour that was computed, and one that was not: how much is missing is told beside the file."""
    facts = served.store.ledger_facts
    whole = (SEPTEMBER + HOUR_MS, SEPTEMBER + 3 * HOUR_MS)
    told = ImportedJob("lab", "lab", "7", None, whole[0], whole[0] + HOUR_MS, Fraction(1), team="nlp")
    served.store.imports.put_jobs([told])
    [computed] = Booking(facts, NoSignals(), KnownLosses(facts, 0)).hours(
        whole[0], whole[0] + HOUR_MS, default_book(), whole[1]
    )
    rows = [row._replace(quanta=5, currency="USD") for row in computed.hour.rows]
    unpriced = rows[0]._replace(gpu="GPU-1", quanta=None, currency="", gpu_ms=HOUR_MS // 2)
    served.store.ledger.write(replace(computed.hour, rows=(*rows, unpriced)))
    span = {"from": str(whole[0] // 1000), "to": str(whole[1] // 1000)}
    with running(Api(book=served.store.ledger).build()) as url:
        answer = httpx.get(f"{url}/api/cost/focus", params=span | {"provider": "our platform"})
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"].endswith('filename="focus-20260930T01-20260930T03.csv"')
        [row] = csv.DictReader(io.StringIO(answer.text))
        assert (row["x_Team"], row["BilledCost"], row["ProviderName"]) == (
            "nlp",
            "0.000000005",
            "our platform",
        )
        refused = httpx.get(f"{url}/api/cost/focus", params=span | {"format": "xlsx"})
        assert refused.json()["error"] == "invalid parameter \"format\": 'xlsx' is neither csv nor parquet"

        file = tmp_path / "costs.parquet"
        asked = ("cost", "--format", "focus", "--from", span["from"], "--to", span["to"], "--server", url)
        said = trilens_here(*asked, "--output", str(file))
        assert said.stderr.splitlines() == [
            "warning: 0.5 GPU-hours have no price and are not in it (see: trilens cost)",
            "warning: nothing is booked for 1 hour of it",
        ]
        assert parquet.read_table(file).num_rows == 1
        assert trilens_here(*asked).stdout == httpx.get(f"{url}/api/cost/focus", params=span).text
