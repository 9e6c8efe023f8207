"""Label frames that came from different tables of symbols."""

from __future__ import annotations

import numpy as np

from trilens.model.labels import LabelFrame, Symbols

ROWS = [{"pod": "a", "gpu": "1"}, {"pod": "b"}, {"gpu": "2"}]


def written(frame: LabelFrame) -> list[dict[str, str]]:
    return [frame.labels(i) for i in range(len(frame))]


def test_a_frame_is_the_same_in_other_codes() -> None:
    theirs = LabelFrame.of(Symbols(), ROWS)
    ours = Symbols()
    ours.intern_all(["x", "b", "2", "y"])
    there = theirs.coded_by(ours)
    assert written(there) == ROWS
    assert there.symbols is ours
    assert there.codes.dtype == np.int32
    assert there.column("pod").tolist() != theirs.column("pod").tolist()
    assert (there.column("gpu") == ours.find("2")).tolist() == [False, False, True]


def test_a_fork_reads_its_parents_codes_as_they_are() -> None:
    parent = Symbols()
    frame = LabelFrame.of(parent, ROWS)
    assert frame.coded_by(parent.fork().fork()).codes is frame.codes
    forked = LabelFrame.of(parent.fork(), [{"pod": "new"}])
    assert written(forked.coded_by(parent)) == [{"pod": "new"}]


def test_a_frame_without_series_or_labels() -> None:
    for frame in (LabelFrame.empty(Symbols()), LabelFrame(Symbols(), (), np.zeros((2, 0), np.int32))):
        other = frame.coded_by(Symbols())
        assert (len(other), other.names, other.codes.shape) == (len(frame), (), frame.codes.shape)


def test_a_frame_is_settled_where_it_holds_nothing_of_the_querys_own() -> None:
    source = Symbols()
    source.intern_all(["a", "b", "1", "2"])
    query = source.fork()
    settled = LabelFrame.of(query, ROWS).settled()
    assert settled.symbols is source
    assert written(settled) == ROWS
    new = LabelFrame.of(query, [{"pod": "c"}])
    assert new.settled() is new
    assert LabelFrame.empty(query).settled().symbols is source
