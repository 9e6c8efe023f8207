"""Credentials from a program that the kubeconfig names, as EKS, GKE, AKS and Teleport give them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from trilens.collect.kubernetes.wire import Unreadable, decode
from trilens.model.errors import KubeApiError
from trilens.settings.kubernetes import plugin_environment

_TIMEOUT_S: Final = 60.0
_EXPIRES_EARLY: Final = timedelta(seconds=60)  # a credential that ends on its way is of no use
_SHOWN: Final = 300  # characters of what a failing program said


@dataclass(frozen=True, slots=True)
class PluginConfig:
    command: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    api_version: str
    install_hint: str
    cluster: dict[str, Any] | None  # what it is told about the cluster, where it wants that


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """What the program answers as its `status`."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    @property
    def is_current(self) -> bool:
        expires = self.expiration_timestamp
        return expires is None or expires.astimezone(UTC) - _EXPIRES_EARLY > datetime.now(UTC)


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    status: Credential


class ExecPlugin:
    """Runs the program when there is no credential, when it expires, and when it was refused."""

    def __init__(self, config: PluginConfig) -> None:
        self.config = config
        self._credential: Credential | None = None
        self._running = asyncio.Lock()  # forty watches need one run of it

    async def credential(self) -> Credential:
        async with self._running:
            if self._credential is None or not self._credential.is_current:
                self._credential = await self._run()
            return self._credential

    def refused(self, token: str) -> None:
        """Unless it was another one meanwhile."""
        if self._credential is not None and self._credential.token == token:
            self._credential = None

    async def _run(self) -> Credential:
        config = self.config
        spec: dict[str, Any] = {"interactive": False}
        if config.cluster is not None:
            spec["cluster"] = config.cluster
        asked = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        told = {**dict(config.environment), "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}
        output = await self._output(plugin_environment(told))
        try:
            answer = decode(output, _Answer)
        except Unreadable as e:
            raise KubeApiError(f"{config.command} printed no ExecCredential: {e}") from e
        credential = answer.status
        if answer.api_version != config.api_version:
            asked_for = f"{config.command} answered in {answer.api_version}, not in {config.api_version}"
            raise KubeApiError(asked_for)
        if not credential.token and not (credential.client_certificate_data and credential.client_key_data):
            raise KubeApiError(f"{config.command} gave neither a token nor a certificate with its key")
        return credential

    async def _output(self, environment: dict[str, str]) -> bytes:
        command = self.config.command
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *self.config.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as e:
            hint = f"; {self.config.install_hint}" if self.config.install_hint else ""
            raise KubeApiError(f"cannot run {command}, which gives the credentials: {e}{hint}") from e
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                output, said = await process.communicate()
        except TimeoutError as e:
            raise KubeApiError(f"{command} gave no credentials within {_TIMEOUT_S:g} s") from e
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if process.returncode:
            why = said.decode(errors="replace").strip()[-_SHOWN:]
            raise KubeApiError(f"{command} gave no credentials, it ended with {process.returncode}: {why}")
        return output
