"""Who said a line, and when: prefixes of launchers, collectors and NCCL."""

# ruff: noqa: E501 - lines of logs are as long as they are
from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trilens.diagnose.logs.line import NO_YEAR, read_line


def _ms(*moment: int) -> int:
    return round(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


T = _ms(2026, 11, 3, 10, 0, 1)
NO_T = _ms(NO_YEAR, 11, 3, 10, 0, 1)
KEY_ERROR = "KeyError: 'k'"


@pytest.mark.parametrize(
    ("raw", "text", "told"),
    [
        ("n1:70:80 [3] misc/socket.cc:49 NCCL WARN Net : closed", "Net : closed",
         {"host": "n1", "pid": 70, "device": 3, "level": "WARN"}),
        ("n1:70:80 [3] include/socket.h:360 WARN Call to connect failed", "Call to connect failed",
         {"host": "n1", "level": "WARN"}),
        ("[2026-11-03 10:00:01] n1:70:80 [-1] NCCL INFO Using network IB", "Using network IB",
         {"t_ms": T, "host": "n1", "level": "INFO"}),
        ("[rank3]: " + KEY_ERROR, KEY_ERROR, {"rank": 3}),
        ('[rank3]:   File "x.py", line 3, in f', '  File "x.py", line 3, in f', {"rank": 3}),
        ("[default3]:[rank11]:[E1103 10:00:01.000 x.cpp:7] [PG 0 (default_pg) Rank 11] bad",
         "[PG 0 (default_pg) Rank 11] bad",
         {"rank": 11, "local": 3, "t_ms": NO_T, "group_rank": 11, "group": "0"}),
        ("[rank29]:[E817 10:00:01.5 x.cpp:7] [PG ID 5 PG GUID 83(TENSOR_GROUP) Rank 1] bad",
         "[PG ID 5 PG GUID 83(TENSOR_GROUP) Rank 1] bad",
         {"rank": 29, "group_rank": 1, "group": "83", "t_ms": _ms(NO_YEAR, 8, 17, 10, 0, 1) + 500}),
        ("[trainer0|0]:bad", "bad", {"local": 0}),
        ("W1103 10:00:01.000000 29 torch/elastic/api.py:719] Received 15", "Received 15", {"t_ms": NO_T}),
        ("[pod/train-1/main] 2026-11-03T10:00:01Z [rank9]: bad", "bad",
         {"pod": "train-1", "rank": 9, "t_ms": T}),
        ("train-1-abc main [rank9]: bad", "bad", {"pod": "train-1-abc", "rank": 9}),
        ("2026-11-03T10:00:01.000000000Z stderr F [rank9]: bad", "bad", {"rank": 9, "t_ms": T}),
        ("2026-11-03T12:00:01+02:00 bad", "bad", {"t_ms": T}),
        ('{"log":"[rank9]: bad\\n","stream":"stderr","time":"2026-11-03T10:00:01Z"}', "bad",
         {"rank": 9, "t_ms": T}),
        ("3: bad", "bad", {"task": 3}),
        ("  3: bad", "bad", {"task": 3}),
        ("    3: bad", "    3: bad", {"task": None}),
        (" 3 things: bad", " 3 things: bad", {"task": None}),
        ("[1,12]<stdout>:n1:815:864 [0] x.cu:80 NCCL WARN bad", "bad", {"task": 12, "host": "n1", "pid": 815}),
        ("[prterun-n1-77@1,12]<stderr>: bad", "bad", {"task": 12}),
        ("Tue Nov  3 10:00:01 2026[1,12]<stderr>:bad", "bad", {"task": 12, "t_ms": T}),
        ("(RayWorker pid=4009, ip=10.0.0.3) [rank1]: bad", "bad", {"pid": 4009, "host": "10.0.0.3", "rank": 1}),
        ("(VllmWorker rank=1 pid=7) ERROR 11-03 10:00:01 [worker_base.py:620]   File", "  File",
         {"pid": 7, "rank": 1, "t_ms": NO_T}),
        ("(VllmWorker TP0 pid=7) ERROR 11-03 10:00:01 worker_base.py:148] bad", "bad", {"pid": 7}),
        ("node2: [rank1]: bad", "bad", {"host": "node2", "rank": 1}),
        ("node1: node1:15:17 [4] NCCL INFO bad", "bad", {"host": "node1", "pid": 15}),
        (KEY_ERROR, KEY_ERROR, {"host": "", "rank": None}),
        ("RuntimeError: node2: bad", "RuntimeError: node2: bad", {"host": ""}),
        ("\x1b[31m[rank3]: bad\x1b[0m\r", "bad", {"rank": 3}),
        ("10%|#  |\r20%|## |\r[rank3]: bad", "bad", {"rank": 3}),
        ("Nov  3 10:00:01 n2 kernel: NVRM: Xid", "kernel: NVRM: Xid", {"host": "n2", "t_ms": NO_T}),
        ("[Tue Nov  3 10:00:01 2026] NVRM: Xid", "NVRM: Xid", {"t_ms": T}),
        ("[12345.678901] NVRM: Xid", "NVRM: Xid", {"t_ms": None}),
        ("2026-99-99 10:00:01 bad", "bad", {"t_ms": None}),
        ("[Tue Nov 99999999999999 10:00:01 2026] bad", "bad", {"t_ms": None}),
        (f"[rank{'9' * 5000}]: bad", "bad", {"rank": None}),
        ('{"log":{"a":1}}', " {'a': 1}", {"rank": None}),
    ],
)  # fmt: skip
def test_what_stands_before_a_line_is_read(raw: str, text: str, told: dict[str, object]) -> None:
    line = read_line(raw)
    assert line.text == text
    assert {name: getattr(line, name) for name in told} == told


def test_a_name_that_is_known_to_be_a_hosts_is_who_said_it() -> None:
    assert read_line(f"gpubox: {KEY_ERROR}").host == ""
    line = read_line(f"gpubox: {KEY_ERROR}", {"gpubox"})
    assert (line.host, line.text) == ("gpubox", KEY_ERROR)
    assert read_line(f"gpubox:     {KEY_ERROR}", {"gpubox"}).text == f"    {KEY_ERROR}"
