"""Events are kept once each, and read back with whom they hit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.gpu import Gpu, GpuKey
from trilens.model.life import MembershipInterval
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
from trilens.store.events import EventRecords
from trilens.store.record_writer import RecordWriter
from trilens.store.workloads import Span, WorkloadRecords

if TYPE_CHECKING:
    from trilens.store.engine import Engine

XID = EventRecord(
    "gpu-1",
    "line-1",
    5_000,
    EventKind.XID,
    31,
    "it's a \\ fault",
    "memory page fault",
    "application",
    GpuUuid("GPU-1"),
    0,
    "0000:00:06",
    523,
    "python3",
    3,
    (Victim("ada", "python-523@gpu-1", "gpu-1:523:1000"), Victim("ml", "train-0", "")),
    "ledger-a",
    7,
)
UNKNOWN = EventRecord(
    "gpu-2", "line-1", 6_000, EventKind.NVLINK, None, "link down", *[None] * 8, (), "ledger-b", 1
)


def told(engine: Engine, *events: EventRecord) -> EventRecords:
    writer = RecordWriter(engine)
    records = EventRecords(engine, writer)
    for event in events:
        records.event(event)
    writer.close()
    return records


def test_all_of_an_event_is_read_back_newest_first(engine: Engine) -> None:
    records = told(engine, XID, UNKNOWN)
    assert records.between(0, 10_000, limit=10) == [UNKNOWN, XID]
    assert records.between(5_000, 5_000, limit=10) == [XID]
    assert records.between(0, 10_000, node="gpu-1", limit=10) == [XID]
    assert records.between(0, 10_000, limit=1) == [UNKNOWN]
    assert records.between(6_001, 10_000, limit=10) == []


def test_events_of_some_pods_are_found_among_many(engine: Engine) -> None:
    others = [
        replace(UNKNOWN, id=f"o{n}", t_ms=7_000, victims=(Victim("ml", "it's", "u1"),)) for n in range(3)
    ]
    records = told(engine, XID, UNKNOWN, *others)
    span = (0, 10_000)
    assert records.of_pods("lab", [("ml", "train-0", "u0")], *span, limit=1) == [XID], (
        "by the name, without a uid"
    )
    assert records.of_pods("lab", [("", "", "gpu-1:523:1000"), ("ml", "a", "b")], *span, limit=9) == [XID]
    assert len(records.of_pods("lab", [("ml", "renamed", "u1")], *span, limit=2)) == 2
    assert records.of_pods("lab", [("ml", "it's", "u2")], *span, limit=9) == [], "a uid says more than a name"
    assert records.of_pods("lab", [("ml", "train-0", "")], 5_001, 10_000, limit=9) == []
    assert records.of_pods("lab", [], *span, limit=9) == []
    very_many = [("ml", f"pod-{n}", f"uid-{n}") for n in range(20_000)]
    assert records.of_pods("lab", [*very_many, ("ml", "train-0", "u0")], *span, limit=9) == [XID]


def test_events_of_one_gpu_are_found_among_many(engine: Engine) -> None:
    others = [replace(XID, id=f"o{n}", t_ms=7_000, uuid=GpuUuid("GPU-2"), gpu=1) for n in range(3)]
    nameless = [replace(XID, node=f"gpu-{n}", id="line-9", uuid=None) for n in (1, 2)]
    moved = replace(XID, node="gpu-2", id="line-8")
    records = told(engine, XID, *others, *nameless, moved)
    key = GpuKey(GpuUuid("GPU-1"))
    places = [Gpu(key, "lab", "gpu-2", "0"), Gpu(key, "lab", "gpu-1", "0")]
    found = records.of_gpu(places, 0, 10_000, limit=9)
    assert sorted((one.node, one.id) for one in found) == [
        ("gpu-1", "line-1"), ("gpu-1", "line-9"), ("gpu-2", "line-8")
    ]  # fmt: skip
    assert len(records.of_gpu([Gpu(key, "lab", "gpu-1", "MIG 0")], 0, 10_000, limit=9)) == 1
    assert records.of_gpu(places, 5_001, 10_000, limit=9) == []


def test_one_may_wait_until_it_is_on_disk(engine: Engine) -> None:
    writer = RecordWriter(engine)
    records = EventRecords(engine, writer)
    assert writer.settled(0)
    records.event(XID)
    assert writer.settled(30)
    assert records.between(0, 10_000, limit=10) == [XID]
    writer.close()


def test_an_event_that_is_told_again_is_one(engine: Engine) -> None:
    told(engine, XID, UNKNOWN)
    # The agent lost its state: it counts the same line again, and its clock was set meanwhile.
    again = replace(XID, ledger="ledger-c", number=1, t_ms=5_020)
    assert told(engine, again).between(0, 10_000, limit=10) == [UNKNOWN, again]


def test_how_far_each_ledger_was_taken(engine: Engine) -> None:
    records = told(engine, XID, replace(XID, id="line-2", number=9), UNKNOWN)
    assert records.positions() == {"ledger-a": 9, "ledger-b": 1}


def test_the_memberships_of_pods_by_uid_or_by_name(engine: Engine) -> None:
    writer = RecordWriter(engine)
    records = WorkloadRecords(engine, writer)
    train = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
    before, after = (
        MembershipInterval(
            Membership(PodKey("lab", "ml", "train-0", f"uid-{attempt}"), train, attempt),
            "gpu-1",
            attempt * 1000,
            end,
        )
        for attempt, end in ((0, 900), (1, None))
    )
    records.membership(before)
    records.membership(after)
    writer.close()
    named, known = ("ml", "train-0", ""), ("", "", "uid-0")
    assert records.members_among([named], Span(0, 5_000)) == [before, after]
    assert records.members_among([named], Span(950, 5_000)) == [after]
    assert records.members_among([known], Span(0, 5_000)) == [before]
    assert records.members_among([("ml", "other", "")], Span(0, 5_000)) == []
    assert records.members_among([], Span(0, 5_000)) == []


def test_faults_of_hardware_are_counted_by_hour(engine: Engine) -> None:
    hour = 3_600_000

    def fault(number: int, t_ms: int, code: int, uuid: str) -> EventRecord:
        return replace(XID, id=f"f{number}", t_ms=t_ms, code=code, uuid=GpuUuid(uuid), number=number)

    records = told(
        engine,
        *(fault(number, 10 * hour + number, 79, "GPU-A") for number in range(5)),  # one fills the log
        fault(5, 11 * hour, 48, "GPU-A"),
        fault(6, 12 * hour, 95, "GPU-B"),
        fault(7, 13 * hour, 31, "GPU-B"),  # a program's
        fault(8, 1, 79, "GPU-B"),  # too long ago
    )
    assert records.hardware_faults(hour) == [
        ("", "gpu-1", None, 3, 12 * hour),
        ("", "gpu-1", "GPU-A", 2, 11 * hour),
        ("", "gpu-1", "GPU-B", 1, 12 * hour),
    ]
    # Since its agent says of which cluster it is, what is known from before is of that one,
    records = told(engine, replace(fault(9, 14 * hour, 79, "GPU-A"), cluster="east"))
    assert records.hardware_faults(hour)[:2] == [
        ("east", "gpu-1", None, 4, 14 * hour),
        ("east", "gpu-1", "GPU-A", 3, 14 * hour),
    ]
    # unless another has a node of that name, too.
    records = told(engine, replace(fault(9, 15 * hour, 79, "GPU-W"), cluster="west"))
    assert [one[:4] for one in records.hardware_faults(hour) if one[2] is None] == [
        ("", "gpu-1", None, 3),
        ("east", "gpu-1", None, 1),
        ("west", "gpu-1", None, 1),
    ]


def test_xids_after_which_a_gpu_is_out_of_service_are_found_among_many(engine: Engine) -> None:
    reset = "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)"
    late, early = replace(XID, id="late", code=79), replace(XID, id="early", code=62, t_ms=4_000)
    link = replace(XID, id="link", code=149, text=reset, t_ms=4_500)
    others = [
        replace(XID, id="cut", code=149),  # nobody knows what it asks for
        replace(XID, id="switch", code=79, kind=EventKind.SXID),
        replace(XID, id="before", code=79, t_ms=3_999),
        replace(XID, id="after", code=79, t_ms=5_001),
    ]
    records = told(engine, XID, UNKNOWN, late, link, early, *others)
    assert records.taking_out(4_000, 5_000) == [early, link, late]


def test_equal_lines_of_equal_nodes_in_two_clusters_are_two_events(engine: Engine) -> None:
    """As of machines made from one image, whose log is a file."""
    east, west = (replace(XID, cluster=cluster, ledger=cluster) for cluster in ("east", "west"))
    records = told(engine, XID, east, west)
    assert records.between(0, 10_000, limit=9) == [XID, east, west]
    assert records.between(0, 10_000, node="gpu-1", cluster="west", limit=9) == [XID, west]
    assert records.of_pods("east", [("ml", "train-0", "u0")], 0, 10_000, limit=9) == [XID, east]
    by_uid = [("", "", "gpu-1:523:1000")]
    assert len(records.of_pods("elsewhere", by_uid, 0, 10_000, limit=9)) == 3, "a uid is of one cluster alone"
    key = GpuKey(GpuUuid("GPU-other"))
    records = told(engine, *(replace(one, id="n", uuid=None) for one in (east, west)))
    [found] = records.of_gpu([Gpu(key, "west", "gpu-1", "0")], 0, 10_000, limit=9)
    assert found.cluster == "west"
