"""What a workload's ranks over time answer, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

import msgspec


class RankHeatAnswer(msgspec.Struct, frozen=True):
    """Step times of ranks over time, in whole milliseconds: `cells_ms` has `columns` numbers for each of
    `ranks`, row after row, each the median of the steps that were read there; null where there are none.
    `median_ms` is that of all ranks in each column, `factor` how many times the median of the others a rank
    needed at its worst.

    A restarted job is elsewhere: `attempts` are its lives in this time, `column_attempt` the place in that
    list for each column, and `pods`, `nodes` and `gpus` have a list of all rows for each of them.
    `worst_column` is where a rank was at its worst.

    `measure` is own (a step without the waiting for others, where the program tells of it: in synchronous
    training all steps are equally long) or step. Of very many ranks the rows are the worst and some others:
    `ranks_known` are there. Of many steps some are read: `steps_read` of `steps_known`.
    """

    run: str | None
    measure: str
    from_ms: int
    step_ms: int
    columns: int
    ranks_known: int
    steps_known: int
    steps_read: int
    ranks: list[int]
    attempts: list[int]
    column_attempt: list[int | None]
    pods: list[list[str | None]]
    nodes: list[list[str | None]]
    gpus: list[list[str | None]]
    factor: list[float | None]
    worst_column: list[int | None]
    median_ms: list[int | None]
    cells_ms: list[int | None]
