"""What processes that are no more left on the spool, for whoever sends it in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.sdk.guard import describe
from trilens.sdk.outbox.folder import find_folders, take_folder
from trilens.sdk.outbox.segment import FileSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.folder import About, WriterFolder
    from trilens.sdk.outbox.line import Line


class LeftBehind:
    """The batches of one dead writer. Its folder is ours until `close`."""

    def __init__(self, folder: WriterFolder, about: About, guard: Guard) -> None:
        self.about = about
        self._folder = folder
        self._guard = guard
        self._segments = [FileSegment(path) for path in folder.segment_paths()]

    @property
    def bytes_left(self) -> int:
        return sum(segment.bytes_left for segment in self._segments)

    def oldest(self, limit_bytes: int) -> list[Line]:
        while self._segments:
            try:
                lines = self._segments[0].oldest(limit_bytes)
            except OSError as error:
                self._guard.lost("records", max(1, self._segments.pop(0).remove()), why=describe(error))
                continue
            if lines:
                return lines
            self.forget(-1)  # nothing but a torn end
        return []

    def forget(self, seq: int) -> None:
        while self._segments:
            torn = self._segments[0].forget(seq)
            if torn:
                self._guard.lost("records", torn, why="a process was killed while it wrote it")
            if self._segments[0].bytes_left > 0:
                return
            self._segments.pop(0).remove()

    def close(self) -> None:
        if self._segments:
            self._folder.release()
        else:
            self._folder.remove()


def left_behind(
    root: Path, guard: Guard, wanted: Callable[[About], bool] = lambda _: True
) -> Iterator[LeftBehind]:
    """Those of dead processes, in the order in which they began."""
    for found in sorted(find_folders(root), key=lambda found: found.about.started_ms):
        if not wanted(found.about):
            continue
        folder = take_folder(found.path)
        if folder is None:  # its process lives, or somebody else sends it
            continue
        try:
            left = LeftBehind(folder, found.about, guard)
        except OSError:
            folder.release()
            continue
        yield left
