"""/api/backups: what backups there are, a new one, and one as a tar file.

The server writes below its own storage.backup_dir and nowhere else, whatever a request says: a client that
wants the files elsewhere reads them as a stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import StreamingResponse

from trilens.model.errors import NotFound, TrilensError
from trilens.model.identity import Right
from trilens.serve.routes import DETAIL, note_of, route
from trilens.store.backup_tar import tar_pieces

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.serve.backup_keeper import BackupKeeper, WholeBackup
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute


class BackupAnswer(msgspec.Struct, frozen=True):
    """One that is whole. All that was acknowledged before `made_ms` is in it."""

    name: str
    path: str  # on the server
    made_ms: int
    bytes: int
    files: int
    trilens: str
    schema: int
    rows: dict[str, int]


class BackupsAnswer(msgspec.Struct, frozen=True):
    """Null is "none", but for `every_s`: only when asked for."""

    directory: str | None  # where the tables are on a ClickHouse server
    is_on_data_disk: bool
    every_s: float | None
    running: str | None
    failed: str | None  # the last one, if it failed
    error: str | None
    backups: tuple[BackupAnswer, ...]  # the oldest first


class NewBackupAnswer(msgspec.Struct, frozen=True):
    name: str  # of the one that is being made


@dataclass(frozen=True, slots=True)
class BackupApis:
    keeper: BackupKeeper
    questions: Questions

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/backups", self.backups),
            route("/api/backups", self.begin, "POST", needs=Right.ADMIN),
            route("/api/backups/{name}", self.tar, needs=Right.ADMIN),
        ]

    async def backups(self, request: Request) -> Response:
        return await self.questions.answer(request, lambda _guard: self._known())

    async def begin(self, request: Request) -> Response:
        note = note_of(request)

        def failed(name: str, error: Exception) -> None:
            status = error.http_status if isinstance(error, TrilensError) else 500
            note(status, f"{name} was not made: {error}")

        def begin(_guard: object) -> NewBackupAnswer:
            name = self.keeper.begin(failed)
            request.scope[DETAIL] = name
            return NewBackupAnswer(name)

        return await self.questions.answer(request, begin)

    async def tar(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        path = await self.questions.runner.run(
            request, self.questions.runner.guard(), lambda: self.keeper.find(name)
        )
        if path is None:
            raise NotFound(f"no backup is called {name!r}")
        # Read in threads of Starlette's own, a piece when the last has gone: a slow client fills no memory.
        return StreamingResponse(
            tar_pieces(path),
            headers={"Content-Disposition": f'attachment; filename="trilens-{path.name}.tar"'},
            media_type="application/x-tar",
        )

    def _known(self) -> BackupsAnswer:
        keeper, state = self.keeper, self.keeper.state
        return BackupsAnswer(
            str(keeper.directory) if keeper.directory is not None else None,
            keeper.is_on_data_disk,
            keeper.every_s,
            state.running,
            state.failed,
            state.error,
            tuple(map(_told, keeper.whole())),
        )


def _told(one: WholeBackup) -> BackupAnswer:
    manifest = one.manifest
    return BackupAnswer(
        one.path.name,
        str(one.path),
        manifest.made_ms,
        manifest.bytes,
        len(manifest.files),
        manifest.trilens,
        manifest.schema,
        {table: rows for table, rows in manifest.rows.items() if rows},
    )
