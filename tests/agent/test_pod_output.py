"""The end of what containers wrote, bounded and without secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proc_tree import POD_UID

from trilens.collect.node.pod_output import PodName, PodOutput
from trilens.collect.node.redaction import Redaction

if TYPE_CHECKING:
    from pathlib import Path

POD = PodName("llm", "train-0", POD_UID)


class Node:
    """The folders of a kubelet."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "log"
        self.kubelet = folder / "kubelet"

    def write(self, container: str, run: str, text: str) -> None:
        file = self.logs / "_".join(POD) / container / f"{run}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def terminate(self, container: str, name: str, text: str, age_s: int) -> None:
        file = self.kubelet / POD_UID / "containers" / container / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1_000_000 - age_s, 1_000_000 - age_s))

    def output(self, lines: int = 200, size: int = 65536) -> PodOutput:
        return PodOutput(self.logs, self.kubelet, lines=lines, size=size, redact=Redaction())


def cri(text: str, part: str = "F", stream: str = "stdout") -> str:
    return f"2025-02-23T16:24:18.123456789Z {stream} {part} {text}\n"


def lines(node: Node, **limits: int) -> list[list[str]]:
    (container,) = node.output(**limits).read(POD)
    return [run["lines"] for run in container["runs"]]


def test_this_run_and_the_one_before(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("main", "0", cri("first life"))
    node.write("main", "9", cri("second to last"))
    node.write("main", "10", cri("last") + cri("CUDA error", stream="stderr"))
    node.write("main", "10.log.20250223-162418", cri("rotated away"))
    (container,) = node.output().read(POD)
    assert container == {
        "container": "main",
        "runs": [{"run": 10, "lines": ["last", "CUDA error"]}, {"run": 9, "lines": ["second to last"]}],
        "termination_messages": [],
    }


def test_long_lines_are_put_together_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("main", "0", cri("one ", "P") + cri("line", "F") + cri("", "F") + cri("next"))
    assert lines(node) == [["one line", "", "next"]]
    node.write("main", "0", cri("out ", "P") + cri("err", stream="stderr") + cri("put"))
    assert lines(node) == [["out put", "err"]]


def test_dockers_format_and_plain_text(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("main", "0", '{"log":"a ","time":"x"}\n{"log":"b\\n","time":"x"}\n{"log":broken\nplain\n')
    assert lines(node) == [["a b", '{"log":broken', "plain"]]


def test_only_the_end_is_read(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("main", "0", "".join(cri(f"line {number}") for number in range(10_000)))
    assert lines(node, lines=3) == [["line 9997", "line 9998", "line 9999"]]
    (few,) = lines(node, size=200)
    assert few == ["line 9997", "line 9998", "line 9999"]  # whole lines of the last 200 bytes
    assert lines(node, lines=0) == [[]]


def test_secrets_are_blacked_out_also_over_lines(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write(
        "main",
        "0",
        cri("PASSWORD=hunter2")
        + cri("-----BEGIN PRIVATE KEY-----")
        + cri("MII")
        + cri("-----END PRIVATE KEY-----")
        + cri("x"),
    )
    node.terminate("main", "ab12", "login failed: password=hunter2", 0)
    (container,) = node.output().read(POD)
    assert container["runs"][0]["lines"] == ["PASSWORD=[redacted]", "[redacted]", "x"]
    assert container["termination_messages"] == ["login failed: password=[redacted]"]


def test_termination_messages_newest_first(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.write("main", "0", "")
    node.terminate("main", "aaaa", "oldest", 300)
    node.terminate("main", "bbbb", "CUDA out of memory\n", 100)
    node.terminate("main", "cccc", "", 50)
    node.terminate("main", "dddd", "x" * 10_000, 200)
    (container,) = node.output().read(POD)
    assert container["termination_messages"] == [
        "CUDA out of memory"
    ]  # of the last two runs; the last said nothing


def test_pods_by_their_folders(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.output().pods() == {}
    node.write("main", "0", "")
    (node.logs / "lost+found").mkdir()
    assert node.output().pods() == {POD_UID: POD}


def test_what_is_not_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.output().read(POD) == []
    node.write("main", "0", "x")
    (node.logs / "_".join(POD) / "main" / "0.log").unlink()
    (node.logs / "_".join(POD) / "main" / "0.log").symlink_to(tmp_path / "gone")
    assert lines(node) == [[]]
