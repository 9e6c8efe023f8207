"""A private authority and what it signs, made with openssl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from servers import require_server

if TYPE_CHECKING:
    from pathlib import Path

_NEW_KEY = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_certificates(folder: Path) -> None:
    """ca.pem, and server and client, each as .pem and .key."""
    make_authority(folder)
    sign(folder, "server")
    sign(folder, "client")


def make_authority(folder: Path) -> None:
    """ca.pem and ca.key."""
    _openssl(
        folder, *_NEW_KEY, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"
    )


def sign(folder: Path, name: str, *, subject: str = "", hosts: str = "DNS:localhost", days: int = 2) -> None:
    """A certificate of the folder's authority as `name`.pem and `name`.key."""
    key, request, names = f"{name}.key", f"{name}.csr", f"{name}.names"
    _openssl(folder, *_NEW_KEY, "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)
    (folder / names).write_text(f"subjectAltName={hosts}", encoding="utf-8")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days), "-extfile", names]
    _openssl(folder, "x509", "-req", "-in", request, "-out", f"{name}.pem", *signing)


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run([require_server("openssl"), *arguments], cwd=folder, check=True, capture_output=True)
