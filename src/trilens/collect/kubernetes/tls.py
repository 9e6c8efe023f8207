"""Whom to trust and as whom to appear: certificates in files, which may be replaced, or in texts."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trilens.model.errors import ConfigError
from trilens.settings.files import read_text


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or a key: where it lies, or what it says."""

    what: str
    file: Path | None = None
    text: str = ""

    def read(self) -> str:
        return self.text if self.file is None else read_text(self.file, self.what)


@dataclass(frozen=True, slots=True)
class TlsConfig:
    authority: Pem | None = None  # the system's where None
    certificate: Pem | None = None
    key: Pem | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a client certificate and its key go together")


class TlsContexts:
    """Reads the files for every connection, and makes a new context only when they say something new."""

    def __init__(self) -> None:
        self._made_of: tuple[str, str, str, bool] | None = None
        self._context = ssl.create_default_context()

    def current(self, config: TlsConfig) -> ssl.SSLContext:
        texts = [pem.read() if pem else "" for pem in (config.authority, config.certificate, config.key)]
        made_of = (texts[0], texts[1], texts[2], config.verify)
        if made_of != self._made_of:
            self._context = _context(*made_of)
            self._made_of = made_of
        return self._context


def _context(authority: str, certificate: str, key: str, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority or None)
        if certificate:
            load_chain(context, certificate, key)
    except (ssl.SSLError, ValueError) as e:
        raise ConfigError(f"cannot use the certificates for the Kubernetes API: {e}") from e
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_chain(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Python takes a certificate from files only; these are gone again when it has read them."""
    with tempfile.TemporaryDirectory(prefix="trilens-") as folder:  # which only we may enter
        files = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        for file, text in zip(files, (certificate, key), strict=True):
            file.write_text(text, encoding="utf-8")
        context.load_cert_chain(*files, password=_no_password)


def _no_password() -> str:
    """Without this, OpenSSL would ask on the terminal for the password of an encrypted key."""
    raise ValueError("the client key is encrypted")
