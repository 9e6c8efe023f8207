"""Which series are in memory: how they come in, and how those that nothing happens to leave again.

In memory is every series with a sample in the last `keep_ms`, and what was added or asked for in the last
minutes. The others are on disk, where `Recall` finds them. docs/decisions/series-come-and-go.md says why.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.errors import ConfigError, IntakeError, StoreError
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.store.activity import Activity
from trilens.store.admission import NEVER
from trilens.store.arrays import grown
from trilens.store.index_state import by_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from trilens.model.labels import Codes, LabelFrame, Labels
    from trilens.model.series import Handles, Times
    from trilens.store.admission import Admission
    from trilens.store.archive import SeriesBlock
    from trilens.store.index import SeriesIndex
    from trilens.store.index_state import IndexState
    from trilens.store.window import RecentWindow

_AT_A_TIME: Final = 4096  # series that enter under one hold of the lock: others append meanwhile
LINGER_S: Final = 900  # how long a series stays that was added or asked for and has no recent sample


@contextmanager
def _told_if_not_text() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as e:
        raise IntakeError(f"a label is not valid UTF-8: {e.object!r}") from e


class Unsaved(NamedTuple):
    """Activity that the disk does not have. While `state` is held the references mean these series."""

    state: IndexState
    refs: Codes
    seen: Activity
    past_unknown: NDArray[np.bool_]  # samples from before these series entered may be on disk
    settled_ms: int


class Residents:
    """Thread-safe. `lock` is the store's: who appends holds it from looking at references to the end."""

    def __init__(
        self,
        index: SeriesIndex,
        window: RecentWindow,
        admission: Admission,
        keep_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if keep_ms <= admission.reach_ms:
            raise ConfigError(
                "series must stay in memory for longer than late samples are taken: "
                f"{keep_ms / 3.6e6:g} h is not more than {admission.reach_ms / 3.6e6:g} h",
                hint="raise storage.series_in_memory",
            )
        self._index = index
        self._window = window
        self._admission = admission
        self._keep_ms = keep_ms
        self._clock = clock
        self.lock = threading.Lock()
        self._labels_saved = np.zeros(1024, dtype=bool)  # the writer has them, or the disk
        self._past_known = np.zeros(1024, dtype=bool)
        self._saved_t: Times = np.full(1024, NEVER, dtype=np.int64)  # newest time of which the disk knows
        self._asked_s = np.zeros(1024, dtype=np.int64)  # when last, by the clock

    # --- coming in -------------------------------------------------------------------------------

    def series(self, labels: Labels) -> int:
        """The handle of a series, which enters if it is not here."""
        with self.lock, _told_if_not_text():
            return self._one(labels)

    def series_of(self, labels: LabelFrame) -> Handles:
        """The same for a row each: what series of one shape have in common is done once for all."""
        handles = np.zeros(len(labels), np.int64)
        for at in range(0, len(labels), _AT_A_TIME):
            some = slice(at, at + _AT_A_TIME)
            with self.lock, _told_if_not_text():
                coded = labels.take(some).coded_by(self._index.state.symbols)
                for rows, metric, names, codes in by_shape(coded):
                    handles[some][rows] = self._block(metric, names, codes)
        return handles

    def _one(self, labels: Labels) -> int:
        key, ref = self._index.find(labels)
        if ref is None:
            # One that was here before has no samples after the horizon, else it would not have left.
            ref = self._index.references.take_one()
            self._enter(ref, self._index.state.horizon_ms)
            self._index.add(ref, key, labels)
        else:
            self._asked_s[ref] = self._clock()
        return self._index.references.handle(ref)

    def _block(self, metric: str, names: tuple[str, ...], codes: Codes) -> Handles:
        found = self._index.find_block(metric, names, codes)
        if found is None:
            texts = self._index.state.symbols.texts
            rows = [
                {METRIC_NAME: metric, **dict(zip(names, texts(row), strict=True))} for row in codes.tolist()
            ]
            return np.array([self._one(make_labels(row)) for row in rows], np.int64)
        ids, refs = found
        new = refs < 0
        self._asked_s[refs[~new]] = self._clock()
        if new.any():
            refs[new] = entering = self._index.references.take(int(new.sum()))
            self._enter(entering, self._index.state.horizon_ms)
            self._index.add_block(entering, ids[new], metric, names, codes[new])
        return self._index.references.handles(refs)

    def take(self, block: SeriesBlock, state: IndexState | None = None, *, saved: bool = True) -> bool:
        """Series from disk. Nothing is taken when the index has gone on from `state`.

        `saved`: the disk knows that their samples end with `last_t`.
        """
        with self.lock:
            if state is not None and self._index.state is not state:
                return False
            known = self._index.refs_of(block.ids)
            here = known >= 0
            self._admission.note_on_disk(known[here], block.first_t[here], block.last_t[here])
            self._asked_s[known[here]] = self._clock()
            new = ~here
            if new.any():
                first_t, last_t = block.first_t[new], block.last_t[new]
                refs = self._index.references.take(int(new.sum()))
                self._enter(refs, last_t)
                self._admission.restore(refs, first_t, last_t, np.full(len(refs), np.nan))
                self._labels_saved[refs] = True
                self._past_known[refs] = saved
                if saved:
                    self._saved_t[refs] = last_t
                codes = self._index.state.symbols.intern_all(block.texts)[block.values[new]]
                self._index.add_block(refs, block.ids[new], block.metric, block.names, codes)
            return True

    def start_from(self, horizon_ms: int) -> None:
        """Before anything enters: series without a sample after this time stay on disk."""
        self._index.state.horizon_ms = horizon_ms

    def restore(self, seen: Activity, saved_t: Times) -> None:
        """At start: what the disk knows of the series that were taken, and how far that was saved.

        Of a series that had come back shortly before a crash nothing recent is saved: its past is asked for.
        """
        refs, known = self._known(seen)
        oldest = np.minimum(self._admission.oldest_t[refs], seen.first_t[known])
        self._admission.restore(refs, oldest, seen.last_t[known], seen.last_v[known])
        self._window.enter(refs, seen.last_t[known])
        self._saved_t[refs] = saved_t[known]
        self._past_known[refs] = saved_t[known] != NEVER

    def _known(self, activity: Activity) -> tuple[Codes, NDArray[np.bool_]]:
        """The references of these series, and which of them are here."""
        refs = self._index.refs_of(activity.ids)
        return refs[refs >= 0], refs >= 0

    def _enter(self, refs: Codes | int, floor: Times | int) -> None:
        """Nothing is left of who had these references, before the index shows them to readers."""
        size = self._index.references.count
        self._admission.reserve(size)
        self._window.reserve(size)
        if size > len(self._saved_t):
            size = max(size, 2 * len(self._saved_t))
            self._labels_saved = grown(self._labels_saved, size)
            self._past_known = grown(self._past_known, size)
            self._saved_t = grown(self._saved_t, size, NEVER)
            self._asked_s = grown(self._asked_s, size)
        self._admission.enter(refs)
        self._window.enter(refs, floor)
        self._labels_saved[refs] = False
        self._past_known[refs] = self._index.state.horizon_ms == NEVER
        self._saved_t[refs] = NEVER
        self._asked_s[refs] = self._clock()

    # --- being here ------------------------------------------------------------------------------

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        """Which of these series are here. They stay for some minutes at least."""
        with self.lock:
            held = self._index.references.held(handles)
            self._asked_s[self._index.references.of(handles[held])] = self._clock()
            return held

    def refs(self, handles: Handles) -> Codes:
        """For who holds the lock. Raises for a series that has left: `held` would have told."""
        if not self._index.references.held(handles).all():
            raise StoreError("samples for series that have left memory: their labels must be resolved again")
        return self._index.references.of(handles)

    def note_asked(self, refs: Codes) -> None:
        """A query wants these, and may want them again."""
        self._asked_s[refs] = self._clock()

    def unsaved_labels(self, refs: Codes) -> NDArray[np.intp]:
        """Which of these series' labels have still to be written. For who holds the lock."""
        return np.flatnonzero(~self._labels_saved[refs])

    def note_labels_saved(self, refs: Codes) -> None:
        self._labels_saved[refs] = True

    def note_late(self, refs: Codes) -> None:
        """They may begin earlier than the disk knows. For who holds the lock."""
        self._saved_t[refs] = NEVER

    def write_labels_again(self, before_ms: int) -> None:
        """What the disk has of series without a sample since is about to be deleted."""
        with self.lock:
            refs = self._index.references.living()
            self._labels_saved[refs[self._admission.newest_t[refs] < before_ms]] = False

    # --- leaving ---------------------------------------------------------------------------------

    def unsaved(self) -> Unsaved:
        with self.lock:
            refs = self._index.references.living()
            refs = refs[self._admission.newest_t[refs] > self._saved_t[refs]]
            newest, value = self._admission.newest(refs)
            seen = Activity(self._index.ids[refs], self._admission.oldest_t[refs], newest, value)
            return Unsaved(self._index.state, refs, seen, ~self._past_known[refs], self._admission.settled_ms)

    def note_past(self, unsaved: Unsaved, past: Activity) -> None:
        """The disk was asked for the past of those of which it was not known, and said this."""
        with self.lock:
            refs, known = self._known(past)
            self._admission.note_on_disk(refs, past.first_t[known], past.last_t[known])
            self._past_known[unsaved.refs] = True

    def note_saved(self, unsaved: Unsaved) -> None:
        with self.lock:
            self._saved_t[unsaved.refs] = unsaved.seen.last_t

    def evict(self, oldest_pending_ms: Callable[[], int]) -> int:
        """Let go of what has no recent sample, once all of it is on disk; returns how many series left."""
        with self.lock:
            if self._admission.max_t == NEVER:
                return 0
            horizon_ms = self._admission.max_t - self._keep_ms
            if oldest_pending_ms() <= horizon_ms:
                return 0
            refs = self._index.references.living()
            newest = self._admission.newest_t[refs]
            leaving = (newest <= horizon_ms) & (newest <= self._saved_t[refs])
            leaving &= self._asked_s[refs] <= self._clock() - LINGER_S
            refs = refs[leaving]
            if len(refs):
                self._index.forget(refs, max(horizon_ms, self._index.state.horizon_ms))
                self._window.leave(refs)
            return len(refs)
