"""Secrets go, what people need to read stays."""

from __future__ import annotations

import pytest

from trilens.collect.node.redaction import Redaction


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "HF_TOKEN=[redacted]"),
        ("password: hunter2", "password: [redacted]"),
        ('{"db_password": "hunter2", "port": 5432}', '{"db_password": "[redacted]", "port": 5432}'),
        ("--api-key abc123 --epochs 3", "--api-key [redacted] --epochs 3"),
        ("--wandb_api_key=abc123", "--wandb_api_key=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/XUtnFEMI", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("using AKIAIOSFODNN7EXAMPLE for s3", "using [redacted] for s3"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted]"),
        ("authorization: basic dXNlcjpwYXNz", "authorization: basic [redacted]"),
        ("cloning https://me:s3cret@git.example/x.git", "cloning https://[redacted]@git.example/x.git"),
        ("redis://:s3cret@cache:6379/0", "redis://[redacted]@cache:6379/0"),
        ("logged in with ghp_abcdefghijklmnopqrstuvwxyz0123", "logged in with [redacted]"),
        ("key sk-abcdefghijklmnopqrstuvwx", "key [redacted]"),
        ("token: eyJhbGciOiJI.eyJzdWIiOiIx.abc", "token: [redacted]"),
        ("token = 0123456789abcdef0123", "token = [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "[redacted]\nafter"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[redacted]"),
        ("MIIEvQ/IBADAN+\nBgkq=\n-----END PRIVATE KEY-----\nafter", "[redacted]\nafter"),
        ("access_token=abc", "access_token=[redacted]"),
    ],
)
def test_secrets_are_blacked_out(text: str, expected: str) -> None:
    assert Redaction()(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "step 120 loss 1.54 tokens/s: 51234.5 num_tokens=4096 max_tokens: 512",
        "tokenizer: LlamaTokenizerFast eos_token='<|endoftext|>' token 5",
        "CUDA error: an illegal memory access was encountered",
        "NCCL INFO Channel 00/02 :    0   1   2   3",
        "GET https://example.com/a:b@c HTTP/1.1",
        "RuntimeError: Expected all tensors to be on the same device",
        "monkey=banana keyboard: qwerty",
    ],
)
def test_what_a_training_job_prints_stays(text: str) -> None:
    assert Redaction()(text) == text


@pytest.mark.parametrize("piece", ["a-", "eyJabcdefgh-", "a.b:", "x://", "secret", "A_", "MIIE"])
def test_a_long_line_of_the_wrong_kind_ends(piece: str) -> None:
    line = piece * (65536 // len(piece))
    assert Redaction()(line) == line


def test_more_can_be_named() -> None:
    assert Redaction([r"EMP-\d+"])("by EMP-4711") == "by [redacted]"
