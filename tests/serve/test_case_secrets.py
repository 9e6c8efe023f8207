"""What is handed on of a case: nothing that lets somebody in."""

from __future__ import annotations

from typing import Any

import pytest

from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.model.kubernetes import KubeObject
from trilens.model.run import ArtifactRecord, NoteRecord, RunFacts, RunId
from trilens.serve.cases.without_secrets import LEFT_OUT, without_secrets

RUN = RunId("r-1")
SUBJECT = CaseSubject(SubjectKind.WORKLOAD, "lab", "ml", "train")
TOKEN = "hf_abcdefghijklmnopqrstuvwx"


def _body(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", **container}], "imagePullSecrets": [{"name": "pull"}]}
    pod = KubeObject("lab", "", "v1", "Pod", "ml", "train-0", "u", "1", 0, None, {}, {}, (), {"spec": spec})
    cleaned: dict[str, Any] = without_secrets(CaseFile(SUBJECT, 0, 1, objects=(pod,))).objects[0].body  # type: ignore[assignment]
    return cleaned


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"name": "A", "value": "hunter2"}, {"name": "A", "value": LEFT_OUT}),
        ({"name": "A", "value": "plain"}, {"name": "A", "value": LEFT_OUT}),
        ({"name": "A"}, {"name": "A", "value": ""}),
        ({"name": "A", "value": "-1"}, {"name": "A", "value": "-1"}),
        (
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "A", "value": LEFT_OUT},
        ),
        (
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ),
    ],
    ids=["secret", "any-value", "empty", "says-none", "from-a-secret", "from-the-pod"],
)
def test_of_a_variable_the_name_stays(told: dict[str, Any], kept: dict[str, Any]) -> None:
    assert _body(env=[told])["spec"]["containers"][0]["env"] == [kept]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["train.py", "--api-key", "s3cr3t"], ["train.py", "--api-key", LEFT_OUT]),
        (["--hub", TOKEN], ["--hub", "[redacted]"]),
        (["--password=abc"], ["--password=[redacted]"]),
        (["x" + "4F7b" * 10], [LEFT_OUT]),
        (["--batch-size", "32", "--lr=0.1"], ["--batch-size", "32", "--lr=0.1"]),
        (["--device", "GPU-01234567-89ab-cdef-0123-456789abcdef"],) * 2,
        (["--model", "meta-llama/Llama-3.1-405B-Instruct"],) * 2,
        (["--tokenizer", "gpt2"], ["--tokenizer", "gpt2"]),
    ],
    ids=["flag", "shape", "equals", "key-shaped", "plain", "gpu", "model", "tokenizer"],
)
def test_of_a_command_what_looks_like_a_key_goes(words: list[str], kept: list[str]) -> None:
    assert _body(args=words)["spec"]["containers"][0]["args"] == kept


def test_secrets_of_pulling_and_documents_in_annotations_go() -> None:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{...}",
        "team": "vision",
        "vault/token": "abc",
    }
    pod = KubeObject("lab", "", "v1", "Pod", "ml", "p", "u", "1", 0, None, {}, annotations, (), {})
    (cleaned,) = without_secrets(CaseFile(SUBJECT, 0, 1, objects=(pod,))).objects
    assert cleaned.annotations == {"team": "vision", "vault/token": LEFT_OUT}
    assert "imagePullSecrets" not in _body()["spec"]


def test_what_programs_told_is_read_too() -> None:
    case = without_secrets(
        CaseFile(
            SUBJECT,
            0,
            1,
            runs=(RunFacts(RUN, 0, config={"api_key": "abc", "lr": 0.1, "deep": [{"password": "x"}]}),),
            notes=(NoteRecord(RUN, 0, 0, 1, 0, "exception", f"401 for {TOKEN}"),),
            artifacts=(
                ArtifactRecord(RUN, 0, 0, 1, 0, "stacks", "s", f"login({TOKEN})".encode()),
                ArtifactRecord(RUN, 0, 0, 2, 0, "flight-recorder", "f", b"\x80\x02\xff."),
            ),
            logs=(LogText(LogKind.CONTAINER, "main", (f"Authorization: Bearer {TOKEN}",)),),
        )
    )
    assert case.runs[0].config == {"api_key": LEFT_OUT, "lr": 0.1, "deep": [{"password": LEFT_OUT}]}
    assert TOKEN not in case.notes[0].text
    assert [one.content for one in case.artifacts] == [b"login([redacted])", b"\x80\x02\xff."]
    assert TOKEN not in case.logs[0].lines[0]
