"""A running server is backed up while it takes samples and records, and another one has all of it."""

from __future__ import annotations

import json
import re
import threading
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from command_here import trilens_here
from run_lines import Sender
from run_records import RUN
from servers import until
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens_process import server, trilens

pytestmark = pytest.mark.whole

HOUR_S = 3_600
HOURS = 5
MAPPED = ("--map", "time=time,in_use=in_use,there=there", "--source", "old")


@cache
def begin_ms() -> int:
    """When it is first asked for: a sample that is an hour behind the newest would not be taken."""
    return (int(time.time()) - 3000) * 1000


class Writer(threading.Thread):
    """The k-th sample is k, at k milliseconds."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.stop = threading.Event()
        self.acknowledged = 0
        self.went_on = threading.Semaphore(0)

    def run(self) -> None:
        labels = make_labels({"__name__": "written"})
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self.stop.is_set():
                k = self.acknowledged
                row = encode([(labels, begin_ms() + k, float(k))])
                client.post("/api/v1/write", content=row, headers=HEADERS).raise_for_status()
                self.acknowledged = k + 1
                self.went_on.release()


def ask(url: str, path: str, **params: str) -> Any:
    answer = httpx.get(f"{url}{path}", params=params, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def written(url: str) -> list[int]:
    form = {"query": "written[50m]", "time": str(begin_ms() // 1000 + 2990)}
    (series,) = httpx.post(f"{url}/api/v1/query", data=form, timeout=60).json()["data"]["result"]
    return [round(float(value)) for _, value in series["values"]]


def booked(url: str) -> Any:
    from_s, to_s = int(time.time()) - 400 * HOUR_S, int(time.time()) - 100 * HOUR_S
    window = {"from": str(from_s), "to": str(to_s)}
    hours = ask(url, "/api/ledger/hours", **window)
    return {one["hour_ms"]: one["digest"] for one in hours if not one["open"]}, ask(
        url, "/api/cost", by="bucket", **window
    )["lines"]


def records(url: str) -> Any:
    steps = ask(url, f"/api/runs/{RUN}/steps")
    return ask(url, f"/api/runs/{RUN}/checkpoints"), steps, ask(url, "/api/silences")


def usage_file(folder: Path) -> str:
    last_s = int(time.time()) // HOUR_S * HOUR_S - 200 * HOUR_S
    rows = [f"{last_s - hour * HOUR_S},{hour % 7},8" for hour in range(HOURS, 0, -1)]
    file = folder / "usage.csv"
    file.write_text("\n".join(["time,in_use,there", *rows]) + "\n")
    return str(file)


def fill(url: str, folder: Path) -> None:
    """Hours of the ledger, a run with steps, and a silence, which lies beside the engine."""
    imported = trilens_here("import", "usage", usage_file(folder), *MAPPED, "--server", url)
    assert imported.returncode == 0, imported.stderr
    sender = Sender()
    for body in (sender.first(steps=3), sender.batch(steps=4)):
        httpx.post(f"{url}/api/v1/runs/records", content=body, timeout=60).raise_for_status()
    silence = {"matchers": ["team=vision"], "to_ms": (begin_ms() + 10**8), "author": "a", "comment": "c"}
    httpx.post(f"{url}/api/silences", json=silence, timeout=60).raise_for_status()
    until(lambda: len(booked(url)[0]) == HOURS, "the imported hours are not booked")


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a server had, and its backup as a tar file and as a directory on the server."""
    folder = tmp_path_factory.mktemp("backed-up")
    with server(folder) as (url, _):
        fill(url, folder)
        writer = Writer(url)
        writer.start()
        try:
            assert writer.went_on.acquire(timeout=60)
            before = writer.acknowledged
            said = trilens("backup", str(folder / "all.tar"), "--server", url)
            assert said.returncode == 0, said.stderr
            while writer.went_on.acquire(blocking=False):
                pass
            assert writer.went_on.acquire(timeout=60), "intake has stopped"
        finally:
            writer.stop.set()
            writer.join()
        folder_said = trilens("backup", str(folder / "unpacked"), "--server", url, "--json")
        assert folder_said.returncode == 0, folder_said.stderr
        return {
            "folder": folder,
            "before": before,
            "said": said.stdout,
            "unpacked": json.loads(folder_said.stdout),
            "listed": ask(url, "/api/backups"),
            "metrics": httpx.get(f"{url}/metrics").text,
            "booked": booked(url),
            "records": records(url),
        }


def test_everything_acknowledged_before_is_there(backed_up: dict[str, Any], tmp_path: Path) -> None:
    tar = str(backed_up["folder"] / "all.tar")
    said = trilens("restore", tar, "--data", str(tmp_path / "data"))
    assert said.returncode == 0, said.stderr
    has = r"is as of .* UTC: rows of .* samples, .* 1 runs, 7 run steps, 5 ledger hours"
    assert re.search(has, said.stdout)
    with server(tmp_path) as (url, _):
        found = written(url)
        assert found == [*range(len(found))]
        assert len(found) >= backed_up["before"] > 0
        until(lambda: booked(url) == backed_up["booked"], "the ledger is not the same")
        assert records(url) == backed_up["records"]
        verified = trilens_here("ledger", "verify", "--from", "-20d", "--json", "--server", url)
        assert verified.returncode == 0, verified.stdout


def test_what_the_server_says_of_them(backed_up: dict[str, Any]) -> None:
    first, second = backed_up["listed"]["backups"]
    assert backed_up["listed"]["running"] is None
    assert first["rows"]["run_steps"] == 7
    assert (Path(second["path"]).parent, second["name"]) == (
        backed_up["folder"] / "data" / "backups",
        backed_up["unpacked"]["name"],
    )
    told = re.search(
        r"^trilens_backup_last_success_timestamp_seconds (\S+)$", backed_up["metrics"], re.MULTILINE
    )
    assert told is not None
    assert float(told[1]) * 1000 == pytest.approx(second["made_ms"])
    assert re.match(r".*all\.tar: [\d.]+ MB of 20.* UTC, rows of .* samples", backed_up["said"])


def test_a_directory_at_rest_is_backed_up_too(backed_up: dict[str, Any], tmp_path: Path) -> None:
    data = str(backed_up["folder"] / "data")
    (tmp_path / ".rest.tar.parts" / "tables").mkdir(parents=True)  # of one that was killed
    said = trilens("backup", str(tmp_path / "rest.tar"), "--data", data)
    assert said.returncode == 0, said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rest.tar"]
    assert (tmp_path / "rest.tar").stat().st_mode & 0o077 == 0  # everything is in it
    again = trilens("restore", str(tmp_path / "rest.tar"), "--data", str(tmp_path / "again"), "--json")
    made = json.loads(again.stdout)
    assert made["rows"]["run_steps"] == 7
    moment = f"{datetime.fromtimestamp(made['made_ms'] // 1000, UTC):%Y-%m-%d %H:%M:%S UTC}"
    assert f"revoked and logins ended since {moment} are valid again: trilens token list" in again.stderr
    among = trilens(
        "backup", str(tmp_path / "again" / "engine" / "in.tar"), "--data", str(tmp_path / "again")
    )
    assert among.returncode == 2
    assert f"{tmp_path / 'again' / 'engine' / 'in.tar'} would be among the data" in among.stderr


def test_no_server_starts_in_a_backup(backed_up: dict[str, Any]) -> None:
    unpacked = backed_up["folder"] / "unpacked"
    before = sorted(unpacked.iterdir())
    for path, why in (
        (unpacked, f"trilens restore {unpacked}"),
        (unpacked / "manifest.json", "that is a file"),
    ):
        said = trilens("up", "--data", str(path), "--listen", "127.0.0.1:0")
        assert said.returncode == 2
        assert why in said.stderr
        assert len(said.stderr.strip().splitlines()) == 1
    assert sorted(unpacked.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("backup", "--data", "nowhere", "x.tar"), "holds no Trilens data"),
        (("backup", "--data", "nowhere"), "where the backup goes"),
        (("backup", "."), "is there already"),
        (("backup", "x.tar", "--data", "d", "--server", "http://x"), "give one of them"),
        (("restore", "nothing", "--data", "d"), "no such backup"),
        (("backup", "x.tar.gz", "--data", "d"), "name it x.tar"),
        (("backup", "x.TAR"), "name it x.tar"),
        (("backup", "x.tgz"), "name it x.tar"),
        (("backup", "x.zip", "--server", "http://x"), "a directory or a .tar file"),
    ],
)
def test_what_makes_no_sense_is_said(arguments: tuple[str, ...], wrong: str, tmp_path: Path) -> None:
    said = trilens_here(*arguments, cwd=tmp_path)
    assert said.returncode == 2
    assert wrong in said.stderr
    assert [*tmp_path.iterdir()] == []
