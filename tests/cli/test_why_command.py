"""`trilens why` and `trilens bundle` as people read them. That both see the same is in tests/serve."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from command_here import trilens_here
from http_target import Answer, HttpTarget
from trilens.diagnose.bundle import write_bundle
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from pathlib import Path

CASE = CaseFile(
    CaseSubject(SubjectKind.WORKLOAD, "lab", "ml", "train"),
    1_000,
    2_000,
    logs=(LogText(LogKind.CONTAINER, "main", ("one", "two")),),
    missing=(Missing("its nodes", 'allow "list" on nodes'),),
)
WHERE = dict.fromkeys(("workload", "namespace", "pod", "node", "gpu", "gpu_number", "rank", "run"))


def _verdict(cause: str, confidence: float, **more: Any) -> dict[str, Any]:
    return {
        "cause": cause,
        "layer": "platform",
        "text": f"It is {cause}.",
        "confidence": confidence,
        "can_tell": confidence >= 0.5,
        "is_sure": confidence >= 0.8,
        "fix": ["Do this.", "Then that."],
        "where": {**WHERE, "namespace": "ml", "pod": "train-0", "node": "n1", "rank": 3},
        "since_ms": 1_700_000_000_000,
        "way": [
            {
                "tree": "pending",
                "question": "scheduler",
                "text": "What does the scheduler say?",
                "answer": "taint",
                "facts": [{"text": "0/1 nodes", "source": "event", "t_ms": 1_700_000_000_000}],
                "confidence": 1.0,
            }
        ],
        "missing": [{"what": "the logs", "remedy": "run an agent"}],
        **more,
    }


def _answer(*verdicts: dict[str, Any]) -> str:
    subject = {"kind": "workload", "cluster": "lab", "namespace": "ml", "name": "train"}
    data = {"subject": subject, "from_ms": 0, "to_ms": 3_600_000, "verdicts": verdicts, "missing": []}
    return json.dumps({"status": "success", "data": data})


def test_the_cause_comes_first_then_the_way_then_what_is_not_known() -> None:
    with HttpTarget() as server:
        server.say(_answer(_verdict("taint", 0.95), _verdict("quota", 0.3)), "/api/why")
        shown = trilens_here("why", "train", "--server", f"http://{server.address}")
        path, _ = server.requests[-1]
    assert shown.stdout.splitlines() == [
        "workload train in ml (lab), 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z",
        "",
        "taint (platform), certain: 95%",
        "          It is taint.",
        "    at:   rank 3, pod ml/train-0, node n1",
        "    from: 2023-11-14T22:13:20Z",
        "    do:   1. Do this.",
        "          2. Then that.",
        "",
        "The way to it:",
        "    What does the scheduler say?  -> taint",
        "          0/1 nodes  [event, 2023-11-14T22:13:20Z]",
        "",
        "Besides, without an answer (--json has the way to it):",
        "    -     It is quota. (perhaps quota, 30%)",
        "",
        "Not known:",
        "    -     the logs. To know it: run an agent",
    ]
    assert "exec" not in path


def test_what_cannot_be_told_at_all_is_shown_whole_where_nothing_else_is() -> None:
    with HttpTarget() as server:
        server.say(_answer(_verdict("quota", 0.3), _verdict("blind-cannot-tell", 0.1)), "/api/why")
        shown = trilens_here("why", "train", "--server", f"http://{server.address}").stdout
    assert "\ncannot tell; perhaps quota (platform), 30%\n          It is quota.\n" in shown
    assert "\ncannot tell (platform)\n          It is blind-cannot-tell.\n" in shown
    assert "Besides" not in shown


def test_commands_are_run_in_containers_only_when_asked_for() -> None:
    with HttpTarget() as server:
        server.say(_answer(_verdict("taint", 0.95)), "/api/why")
        url = f"http://{server.address}"
        trilens_here("why", "train", "--exec", "--since", "2h", "--server", url)
        trilens_here("bundle", "train", "--exec", "--server", url)
        trilens_here("why", "train", "--server", url)
        assert len(server.requests) == 3
        why, case = server.posted  # no page of another site can have it done by a link
    assert (why.partition("?")[0], case.partition("?")[0]) == ("/api/why", "/api/case")
    assert "exec=true" in why
    assert "exec=true" in case


def test_without_a_name_what_is_open_with_its_cause() -> None:
    workload = {"cluster": "lab", "namespace": "ml", "group": "batch", "kind": "Job", "name": "train"}
    incident = {"id": "i-1", "severity": "critical", "title": "train hangs", "onset_ms": 0}
    about = {**incident, "subject": {"workload": workload, "node": None}}
    nobody = {**incident, "id": "i-2", "subject": {"workload": None, "node": None}}
    with HttpTarget() as server:
        url = f"http://{server.address}"
        server.say(json.dumps({"status": "success", "data": [about, nobody]}), "/api/incidents")
        server.say(_answer(_verdict("taint", 0.95)), "/api/why")
        shown = trilens_here("why", "--server", url)
        assert "    why:  It is taint.  [taint (platform), certain: 95%]\n" in shown.stdout
        assert "    more: trilens why i-1\n" in shown.stdout
        assert "it names neither a workload nor a node" in shown.stdout
        told = json.loads(trilens_here("why", "--server", url, "--json").stdout)
        assert [one["incident"]["id"] for one in told] == ["i-1", "i-2"]
        server.say(json.dumps({"status": "success", "data": []}), "/api/incidents")
        calm = trilens_here("why", "--server", url)
    assert (calm.returncode, calm.stdout) == (0, "")
    assert "nothing is wrong that is known" in calm.stderr


def test_a_bundle_says_what_is_in_it_and_what_is_not(tmp_path: Path) -> None:
    written = io.BytesIO()
    write_bundle(CASE, written)
    file = tmp_path / "case.zip"
    with HttpTarget() as server:
        server.answers["/api/case"] = Answer(written.getvalue(), content_type="application/zip")
        url = f"http://{server.address}"
        shown = trilens_here("bundle", "train", "-o", str(file), "--mask-names", "--server", url)
        path, _ = server.requests[-1]
        refused = trilens_here("bundle", "train", "-o", str(tmp_path / "no" / "x.zip"), "--server", url)
        default = trilens_here("bundle", "ml/train", "--server", url, "--json", cwd=tmp_path)
    assert "mask_names=true" in path
    assert file.read_bytes() == written.getvalue()
    assert "    has:  logs 1\n          2 lines of logs, 0 points of metrics\n" in shown.stdout
    assert '    lack: its nodes. To know it: allow "list" on nodes\n' in shown.stdout
    assert refused.returncode == 2
    told = json.loads(default.stdout)
    assert told["file"].startswith("trilens-train-")
    assert (tmp_path / told["file"]).stat().st_size == told["bytes"]


def test_what_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no zip")
    both = trilens_here("why", "train", "--bundle", str(tmp_path / "x.zip"))
    assert (both.returncode, "a bundle is about one thing" in both.stderr) == (2, True)
    broken = trilens_here("why", "--bundle", str(tmp_path / "x.zip"))
    assert (broken.returncode, "not a bundle" in broken.stderr) == (2, True)
    gone = trilens_here("why", "--bundle", str(tmp_path / "none.zip"))
    assert (gone.returncode, "none.zip: No such file or directory" in gone.stderr) == (2, True)
    assert trilens_here("why", "train", "--since", "yesterday-ish").returncode == 2


def test_a_bundle_needs_nothing_of_the_server(tmp_path: Path) -> None:
    """`pip install trilens` is enough, also on a laptop without the cluster."""
    program = (
        "import sys\n"
        "for name in ('numpy', 'msgspec', 'aiohttp', 'chdb', 'pyarrow', 'starlette', 'orjson'):\n"
        "    sys.modules[name] = None\n"
        "from trilens.cli.main import main\n"
        "main()\n"
    )
    file = tmp_path / "case.zip"
    write_bundle(CASE, file)
    done = subprocess.run(
        [sys.executable, "-c", program, "why", "--bundle", str(file), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdicts"]
    assert answer["missing"] == [{"what": "its nodes", "remedy": 'allow "list" on nodes'}]
