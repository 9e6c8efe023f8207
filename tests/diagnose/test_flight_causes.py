"""Who is to blame for a hang, by the dumps of all ranks."""

from __future__ import annotations

from typing import Any

import pytest

from flight_dumps import SECOND_NS, START_NS, dump, judged, op, sources
from trilens.diagnose.flight.differences import steps
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.reading import read_dumps
from trilens.diagnose.flight.timeline import Timelines
from trilens.model.rank_names import ranks_name

ALL = {"0": range(4)}
BEFORE = [op("all_reduce", 1), op("all_reduce", 2)]


def _in(*entries: dict[str, Any]) -> dict[str, Any]:
    return dump([*BEFORE, *entries], ALL)


STARTED = op("all_reduce", 3, "started")
WAITS = _in(STARTED)


def _others(odd: int, told: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {rank: told if rank == odd else WAITS for rank in range(4)}


def test_one_who_never_entered_is_named_with_what_it_did_last() -> None:
    verdict = judged(_others(2, _in()))
    assert (verdict.reason, verdict.culprits) == (Reason.NEVER_ENTERED, (2,))
    assert (verdict.collective, verdict.sequence, verdict.group) == ("all_reduce", 3, "0:default_pg")
    assert (
        verdict.text == "Rank 2 never entered all_reduce 3 of group default_pg, in which ranks 0, 1, 3 wait."
    )
    assert verdict.since_ms == (START_NS + 3 * SECOND_NS) // 1_000_000
    assert verdict.confidence > 0.9
    assert (
        verdict.doing[0].text
        == "last called all_reduce 2 of group default_pg at /train/loop.py:42 in step, which ended"
    )
    assert not verdict.missing


@pytest.mark.parametrize(
    ("entry", "reason", "said"),
    [
        (op("broadcast", 3, "started"), Reason.MISMATCHED_COLLECTIVE, "broadcast instead of all_reduce"),
        (
            op("all_reduce", 3, "started", input_sizes=[[9]], output_sizes=[[9]]),
            Reason.MISMATCHED_SHAPE,
            "9 instead of 8",
        ),
        (
            op("all_reduce", 3, "started", input_dtypes=["Half"], output_dtypes=["Half"]),
            Reason.MISMATCHED_DTYPE,
            "Half instead of Float",
        ),
    ],
    ids=["collective", "shape", "dtype"],
)  # fmt: skip
@pytest.mark.parametrize("odd", [0, 3])
def test_one_who_put_in_something_else_is_the_odd_one(
    odd: int, entry: dict[str, Any], reason: Reason, said: str
) -> None:
    """Also where it is the first rank, with which PyTorch's analyser compares all others."""
    verdict = judged(_others(odd, _in(entry)))
    assert (verdict.reason, verdict.culprits) == (reason, (odd,))
    assert said in verdict.text
    assert (verdict.doing[0].rank, verdict.doing[0].text) == (
        odd,
        f"called {entry['profiling_name'][5:]} 3 at /train/loop.py:43 in step",
    )


def test_shapes_of_as_many_elements_fit() -> None:
    verdict = judged(
        _others(1, _in(op("all_reduce", 3, "started", input_sizes=[[4, 2]], output_sizes=[[4, 2]])))
    )
    assert verdict.reason is Reason.ALL_SAME


def test_a_mismatch_that_ended_is_why_they_wait_now() -> None:
    """A rank that leaves one out is one short later, which is not the cause."""
    ahead = [
        op("all_reduce", 1),
        op("all_gather", 2, output_sizes=[[32]]),
        op("all_reduce", 3),
        op("barrier", 4, "started"),
    ]
    short = [op("all_reduce", 1), op("all_reduce", 2), op("barrier", 3)]
    verdict = judged({rank: dump(short if rank == 1 else ahead, ALL) for rank in range(4)})
    assert (verdict.reason, verdict.culprits, verdict.sequence) == (Reason.MISMATCHED_COLLECTIVE, (1,), 2)
    assert "as if this one had been left out" in verdict.text
    assert "since then they wait in barrier 4" in verdict.text


def test_the_same_two_in_another_order() -> None:
    usual = dump([op("all_reduce", 1, "started"), op("broadcast", 2, "scheduled")], ALL)
    swapped = dump([op("broadcast", 1, "started"), op("all_reduce", 2, "scheduled")], ALL)
    verdict = judged({rank: swapped if rank == 3 else usual for rank in range(4)})
    assert (verdict.reason, verdict.culprits) == (Reason.MISMATCHED_ORDER, (3,))


def test_all_in_the_same_is_not_the_program() -> None:
    verdict = judged(dict.fromkeys(range(4), WAITS))
    assert (verdict.reason, verdict.culprits) == (Reason.ALL_SAME, ())
    assert "network" in verdict.fix[0]


def test_a_gpu_that_has_not_come_to_it_is_behind() -> None:
    verdict = judged(_others(1, _in(op("all_reduce", 3, "scheduled"))))
    assert (verdict.reason, verdict.culprits) == (Reason.GPU_BEHIND, (1,))


def test_one_who_did_not_dump_is_named_where_all_others_are_in_it() -> None:
    verdict = judged(dict.fromkeys((0, 1, 2), WAITS))
    assert (verdict.reason, verdict.culprits, verdict.world) == (Reason.DID_NOT_DUMP, (3,), 4)
    assert "rank 3 did not dump" in verdict.missing[0].what
    assert 0.5 <= verdict.confidence < 0.8


def test_of_half_the_ranks_nobody_is_blamed() -> None:
    verdict = judged(dict.fromkeys((0, 1), WAITS))
    assert (verdict.reason, verdict.culprits) == (Reason.DID_NOT_DUMP, (2, 3))
    assert not verdict.can_tell


def test_one_who_told_is_surer_than_one_who_did_not() -> None:
    verdict = judged({0: WAITS, 1: WAITS, 2: _in()})
    assert (verdict.reason, verdict.culprits) == (Reason.NEVER_ENTERED, (2,))
    assert 0.5 <= verdict.confidence < 0.8


PIPELINE = {"0": range(4), "tp": (2, 3)}


def _across(tensor: dict[str, Any] | None, outer: bool) -> dict[str, Any]:
    entries = [op("all_reduce", 1), op("all_reduce", 1, group="tp"), *([tensor] if tensor else [])]
    return dump([*entries, *([op("all_reduce", 2, "scheduled")] if outer else [])], PIPELINE)


def test_the_chain_is_followed_into_the_group_where_it_begins() -> None:
    """Ranks 0 and 1 wait for 2 and 3; 2 waits in its own group for 3, which waits in nothing."""
    outside = dump([op("all_reduce", 1), op("all_reduce", 2, "started")], {"0": range(4)})
    inner = op("all_gather", 2, "started", group="tp", output_sizes=[[16]])
    for outer in (False, True):  # a program may have put in the outer one already: its GPU has not come to it
        verdict = judged({0: outside, 1: outside, 2: _across(inner, outer), 3: _across(None, outer=False)})
        assert (verdict.reason, verdict.culprits, verdict.group) == (Reason.NEVER_ENTERED, (3,), "tp:tp")
    assert len(verdict.chain) == 1
    assert verdict.chain[0].endswith("for rank 2, which waits in all_gather 2 of group tp")


def test_groups_of_one_name_are_told_apart_by_their_ranks() -> None:
    """As split_group makes them."""
    in_it = op("all_reduce", 1, "started", group="dp")
    verdict = judged({
        0: dump([in_it], {"dp": (0, 1)}), 1: dump([], {"dp": (0, 1)}),
        **{rank: dump([op("all_reduce", 1, group="dp")], {"dp": (2, 3)}) for rank in (2, 3)},
    })  # fmt: skip
    assert (verdict.reason, verdict.culprits, verdict.group_ranks) == (Reason.NEVER_ENTERED, (1,), (0, 1))


@pytest.mark.parametrize("receives", [False, True], ids=["no-receive", "receive"])
def test_a_send_waits_for_whom_it_is_sent_to(receives: bool) -> None:
    groups = {"pp": (4, 5)}
    send = op("send 0->1", 1, "started", group="pp")
    receive = op("recv 1<-0", 1, "started", group="pp", output_sizes=[[4]])
    verdict = judged({
        4: dump([send], groups),
        5: dump([receive] if receives else [op("all_reduce", 1, group="pp")], groups),
        **{rank: dump([op("all_reduce", 1)], {"0": range(6)}) for rank in range(4)},
    })  # fmt: skip
    if receives:
        assert (verdict.reason, verdict.culprits) == (Reason.MISMATCHED_SHAPE, (4, 5))
        assert "8 sent, 4 to be received" in verdict.text
    else:
        assert (verdict.reason, verdict.culprits, verdict.collective) == (Reason.NEVER_ENTERED, (5,), "send")
        assert verdict.text == "Rank 5 never answered the send to rank 5 of group pp, in which rank 4 waits."


def test_a_send_that_ended_early_was_sent() -> None:
    groups = {"pp": (0, 1)}
    verdict = judged({
        0: dump([op("send 0->1", 1, group="pp")], groups),
        1: dump([op("recv 1<-0", 1, "started", group="pp")], groups),
    })  # fmt: skip
    assert verdict.reason is Reason.ALL_SAME


def test_coalesced_operations_have_the_state_of_their_end() -> None:
    """Each send and receive of a batch stays at scheduled for ever."""

    def batch(rank: int, end: str) -> list[dict[str, Any]]:
        other = 1 - rank
        return [
            op(f"send {rank}->{other}", 1, "scheduled"), op(f"recv {rank}<-{other}", 1, "scheduled"),
            op("coalesced", 1, end, is_p2p=True, input_sizes=[], output_sizes=[]),
        ]  # fmt: skip

    groups = {"0": range(2)}
    over = judged({rank: dump(batch(rank, "completed"), groups) for rank in range(2)})
    assert over.reason is Reason.NOTHING_PENDING
    alone = judged(
        {0: dump([op("all_reduce", 1), *batch(0, "started")], groups), 1: dump([op("all_reduce", 1)], groups)}
    )
    assert (alone.reason, alone.culprits) == (Reason.NEVER_ENTERED, (1,))


def test_an_exchange_must_add_up() -> None:
    def exchange(given: int, taken: int) -> dict[str, Any]:
        return dump(
            [op("all_to_all", 1, "started", input_sizes=[[given]], output_sizes=[[taken]])], {"0": range(2)}
        )

    assert judged({0: exchange(6, 10), 1: exchange(10, 6)}).reason is Reason.ALL_SAME
    wrong = judged({0: exchange(6, 10), 1: exchange(10, 7)})
    assert (wrong.reason, wrong.culprits) == (Reason.MISMATCHED_SHAPE, (0, 1))
    assert "16 elements given, 17 to be taken" in wrong.text


def test_what_a_ring_buffer_has_lost_was_entered() -> None:
    """Rank 1 is in more groups and remembers less of this one."""
    long = dump(
        [op("all_reduce", seq) for seq in range(1, 6)] + [op("all_reduce", 6, "started")], {"0": range(3)}
    )
    short = dump([op("all_reduce", 5), op("all_reduce", 6, "started")], {"0": range(3)}, first=40)
    late = dump([op("all_reduce", seq) for seq in range(3, 6)], {"0": range(3)}, first=2)
    verdict = judged({0: long, 1: short, 2: late})
    assert (verdict.reason, verdict.culprits, verdict.sequence) == (Reason.NEVER_ENTERED, (2,), 6)


def test_what_a_ring_buffer_has_lost_is_not_missing_where_all_has_ended() -> None:
    groups = {"0": range(2)}
    long = dump([op("all_reduce", seq) for seq in range(1, 7)], groups)
    short = dump([op("all_reduce", seq) for seq in range(5, 7)], groups, first=40)
    verdict = judged({0: long, 1: short})
    assert (verdict.reason, verdict.culprits) == (Reason.NOTHING_PENDING, ())


def test_who_dumped_earlier_is_not_to_blame_for_what_came_later() -> None:
    """The third ended on rank 0: then rank 1 was in it, after its dump."""
    verdict = judged({
        0: _in(op("all_reduce", 3), op("all_reduce", 4, "started")), 1: _in(),
        2: _in(op("all_reduce", 3, "started")), 3: _in(op("all_reduce", 3, "started")),
    })  # fmt: skip
    assert (verdict.reason, verdict.culprits) == (Reason.DID_NOT_DUMP, (1,))
    assert any("later moment" in one.what for one in verdict.missing)


def test_a_dump_of_an_earlier_attempt_is_left_out() -> None:
    old = dump(
        [entry | {"time_created_ns": entry["time_created_ns"] - 7200 * SECOND_NS} for entry in BEFORE], ALL
    )
    verdict = judged(_others(1, old))
    assert (verdict.reason, verdict.culprits) == (Reason.DID_NOT_DUMP, (1,))
    assert verdict.missing[0].what.startswith("rank 1's dump is of another life")


def test_stacks_beside_the_dumps_say_what_the_culprit_does() -> None:
    stack = 'Thread 0x1 (most recent call first):\n  File "/train/data.py", line 7 in read\n'
    verdict = judged(_others(2, _in()), {2: stack})
    assert verdict.doing[0]._asdict() == {
        "rank": 2,
        "text": "is at /train/data.py:7 in read",
        "source": "its stacks",
    }


def test_one_whose_stacks_wait_in_what_no_dump_has_is_told_with_doubt() -> None:
    """As in the end of a process group (pytorch 196968)."""
    frame = 'File "/usr/torch/distributed/distributed_c10d.py", line 7 in destroy'
    stack = f"Thread 0x1 (most recent call first):\n  {frame}\n"
    sure, doubtful = judged(_others(2, _in())), judged(_others(2, _in()), {2: stack})
    assert doubtful.culprits == (2,)
    assert doubtful.confidence < sure.confidence
    assert "rank 2 waits for others by its stacks" in doubtful.missing[0].what


def test_dumps_of_different_versions_are_read_together() -> None:
    verdict = judged(_others(2, _in() | {"version": "2.3"}))
    assert verdict.culprits == (2,)
    assert "different versions: 2.10, 2.3" in verdict.missing[0].what


def test_dumps_that_hold_nothing_tell_nothing() -> None:
    verdict = judged({rank: dump([], ALL) for rank in range(4)})
    assert (verdict.reason, verdict.can_tell) == (Reason.UNKNOWN, False)
    assert "TORCH_FR_BUFFER_SIZE" in verdict.missing[0].remedy


def test_all_of_256_ranks_are_looked_at() -> None:
    groups = {"0": range(256), "dp": range(0, 256, 8)}
    past = [op("all_reduce", seq) for seq in range(1, 6)]
    waits = dump([*past, op("all_reduce", 6, "started")], groups)
    verdict = judged({rank: dump(past, groups) if rank == 77 else waits for rank in range(256)})
    assert verdict.culprits == (77,)
    assert verdict.text.endswith("in which ranks 0-76, 78-255 wait.")


def test_ranks_are_named_in_runs() -> None:
    assert ranks_name([3]) == "rank 3"
    assert ranks_name([5, 0, 1]) == "ranks 0, 1, 5"
    assert ranks_name([0, 1, 2, 7]) == "ranks 0-2, 7"
    assert ranks_name(range(0, 40, 2)).endswith("14 and more, 20 in all")


@pytest.mark.parametrize("call", ["send 0->99999", "recv 5<-", "send"])
def test_a_send_of_which_nobody_knows_to_whom_is_not_all_that_should_be(call: str) -> None:
    ranks = {"0": range(3)}
    waits = dump([op("all_reduce", 1), op("all_reduce", 2, "started")], ranks)
    sends = dump([op("all_reduce", 1), op(call, 1, "started")], ranks)
    verdict = judged({0: waits, 1: waits, 2: sends})
    assert (verdict.reason, verdict.can_tell) == (Reason.UNKNOWN, False)
    assert verdict.text.startswith("Rank 2 waits in")
    assert verdict.text.endswith("and no dump says for whom.")


def test_who_put_something_in_is_in_the_group_whatever_is_listed() -> None:
    """A dump with another rank's name, or one that is damaged: it is told, and the rank counts."""
    told = {0: dump([op("all_reduce", 1)], {"0": (2, 5)}), 1: dump([], {"0": (2, 5)})}
    verdict = judged(told)
    assert verdict.reason is Reason.NOTHING_PENDING
    assert [step.absent for step in steps(Timelines(read_dumps(sources(told))))] == [()]
    assert any("whether rank 0 has the right dump" in one.what for one in verdict.missing)
    assert not any("rank 1 has the right" in one.what for one in verdict.missing)
