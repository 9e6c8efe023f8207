"""A batch of records as it comes over the wire (docs/sdk-protocol.md), checked field by field.

Fields that nobody knows are passed over: a newer sender may talk to an older server.
"""

from __future__ import annotations

import re
import zlib
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from trilens.model.errors import RunRecordsError, RunRecordsTooLarge
from trilens.model.run_id import RUN_ID_PATTERN

_GZIP: Final = zlib.MAX_WBITS | 16
HIGHEST: Final = (1 << 63) - 1  # what a column of the store holds
LOWEST: Final = -(1 << 63)

MOST: Final = 1 << 53  # what JSON's numbers hold exactly; sums of these fit where one does
MOST_RANK: Final = (1 << 31) - 1
LONGEST_TEXT: Final = 4_096
LONGEST_ERROR: Final = 262_144

Count = Annotated[int, Meta(ge=0, le=MOST)]
Microseconds = Annotated[int, Meta(ge=-MOST, le=MOST)]
Number = Annotated[int, Meta(ge=LOWEST, le=HIGHEST)]
Rank = Annotated[int, Meta(ge=0, le=MOST_RANK)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
LongText = Annotated[str, Meta(max_length=LONGEST_ERROR)]
Value = float | Literal["NaN", "Infinity", "-Infinity"]
_MAX_NAMES: Final = 1_000  # of phases or of values in one batch
_MAX_ARTIFACT_BYTES: Final = 1 << 20
_MAX_NESTING: Final = 100  # what is written down again must not be deeper than any stack that does that


def _check_nesting(what: str, told: dict[str, Any]) -> None:
    within: list[Any] = [told]
    for _ in range(_MAX_NESTING):
        within = [
            inner
            for one in within
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not within:
            return
    raise ValueError(f"{what} is nested more than {_MAX_NESTING} deep")


class TrackerTold(Struct):
    system: Name
    run: Text
    where: Text = ""


class FactsTold(Struct):
    created_ms: Count
    experiment: Text | None = None
    name: Text | None = None
    config: dict[str, Any] = {}
    tags: dict[str, str] = {}
    world_size: Count | None = None
    total_steps: Count | None = None
    trackers: list[TrackerTold] = []
    source: Name = "sdk"

    def __post_init__(self) -> None:
        _check_nesting("config", self.config)


class ProcessTold(Struct):
    started_ms: Count
    local_rank: Rank | None = None
    world_size: Count | None = None
    node: Text = ""
    pid: Count | None = None
    process_started_ms: Count | None = None
    cluster: Text | None = None
    namespace: Text | None = None
    pod: Text | None = None
    pod_uid: Text | None = None
    container: Text | None = None
    gpus: list[Text] = []
    launcher: Text | None = None
    job: Text | None = None
    metrics_address: Text | None = None
    versions: dict[str, str] = {}


class StepsTold(Struct):
    n: list[Count]
    step: list[Count]
    start_us: list[Microseconds]
    us: list[Count]
    samples: list[Count | None] | None = None
    tokens: list[Count | None] | None = None
    epoch: list[Count | None] | None = None
    phases: dict[Name, list[Count | None]] = {}
    device: dict[Name, list[Count | None]] = {}
    values: dict[Name, list[Value | None]] = {}

    def __post_init__(self) -> None:
        expected = len(self.n)
        columns: dict[str, list[Any] | None] = {
            "step": self.step,
            "start_us": self.start_us,
            "us": self.us,
            "samples": self.samples,
            "tokens": self.tokens,
            "epoch": self.epoch,
        }
        for group in ("phases", "device", "values"):
            named = getattr(self, group)
            if len(named) > _MAX_NAMES:
                raise ValueError(f"{group} has {len(named)} names; {_MAX_NAMES} are the most")
            columns.update((f"{group}.{name}", column) for name, column in named.items())
        for name, column in columns.items():
            if column is not None and len(column) != expected:
                raise ValueError(f"{name} has {len(column)} entries, n has {expected}")


class BatchTold(Struct):
    n: Count
    step: Count
    i: Rank = 0
    dataset: Text = ""
    shard: Text | None = None
    epoch: Count | None = None
    size: Count | None = None
    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")] | None = None
    range: tuple[Number, Count, Number] | None = None
    ids: list[Number] | None = None
    names: list[Text] | None = None
    unknown: Text | None = None

    def __post_init__(self) -> None:
        told = [name for name in ("range", "ids", "names", "unknown") if getattr(self, name) is not None]
        if len(told) > 1:
            raise ValueError(f"one of {' and '.join(told)} can be true")
        if self.range is not None:
            first, count, stride = self.range
            if not LOWEST <= first + max(count - 1, 0) * stride <= HIGHEST:
                raise ValueError("range ends at a number that is too large")
        count_told = self.range[1] if self.range is not None else len(self.ids or self.names or ())
        if count_told and self.size is not None and self.size != count_told:
            raise ValueError(f"size is {self.size}, told are {count_told}")


class CheckpointTold(Struct):
    n: Count
    step: Count
    path: Text
    start_ms: Count
    us: Count | None = None
    bytes: Count | None = None
    ok: bool = True
    error: LongText | None = None
    loaded: bool = False


class ValidationTold(Struct):
    n: Count
    step: Count
    t_ms: Count
    us: Count | None = None
    values: dict[Name, Value | None] = {}


class NoteTold(Struct):
    n: Count
    t_ms: Count
    kind: Name
    text: LongText = ""
    step: Count | None = None
    data: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_nesting("data", self.data)


class ArtifactTold(Struct):
    n: Count
    t_ms: Count
    kind: Name
    name: Text
    base64: bytes  # msgspec decodes it

    def __post_init__(self) -> None:
        if len(self.base64) > _MAX_ARTIFACT_BYTES:
            raise ValueError(f"it has {len(self.base64):,} bytes; {_MAX_ARTIFACT_BYTES:,} are the most")


class StateTold(Struct):
    heartbeat_s: float = 2.0
    step: Count | None = None
    phase: Text | None = None
    clock_offset_us: Microseconds | None = None
    lost: dict[str, Count] = {}


class EndTold(Struct):
    t_ms: Count
    how: Literal["finished", "failed"]
    error: LongText | None = None


class BatchLine(Struct):
    v: Literal[1]
    run: Annotated[str, Meta(pattern=rf"\A{RUN_ID_PATTERN}\Z")]
    rank: Rank
    writer: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    seq: Count | None
    t_ms: Count
    facts: FactsTold | None = None
    process: ProcessTold | None = None
    steps: StepsTold | None = None
    batches: list[BatchTold] = []
    checkpoints: list[CheckpointTold] = []
    validations: list[ValidationTold] = []
    notes: list[NoteTold] = []
    artifacts: list[ArtifactTold] = []
    state: StateTold | None = None
    end: EndTold | None = None


class Reading(NamedTuple):
    """What of a body can be taken, and why the rest cannot."""

    lines: list[BatchLine]
    refusal: RunRecordsError | None
    size_bytes: int

    @property
    def processes(self) -> list[ProcessTold]:
        """The same one, as it tells of itself again and again."""
        return [line.process for line in self.lines if line.process is not None]


_LINE: Final = msgspec.json.Decoder(BatchLine)
_SEQ: Final = re.compile(rb'"seq":\s*([0-9]{1,18})[,}]')  # also where the rest is not JSON


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in ("", "identity", "gzip"):
        raise RunRecordsError(f"content encoding {encoding!r} is neither gzip nor identity")
    if encoding == "gzip":
        unpacker = zlib.decompressobj(_GZIP)
        try:
            body = unpacker.decompress(body, limit + 1)
        except zlib.error as e:
            raise RunRecordsError(f"the body is not gzip: {e}") from e
        if len(body) <= limit and not unpacker.eof:
            raise RunRecordsError("the body is cut off: its gzip does not end")
    if len(body) > limit:
        raise RunRecordsTooLarge(f"the records have more than {limit:,} bytes")
    return body


def read_lines(body: bytes) -> Reading:
    """Up to the first line that cannot be read. All are of one writer, in the order of their seq."""
    lines: list[BatchLine] = []
    refusal = _read_into(lines, body)
    return Reading(lines, refusal, len(body))


def _read_into(lines: list[BatchLine], body: bytes) -> RunRecordsError | None:
    for text in body.split(b"\n"):
        if not text.strip():
            continue
        try:
            line = _LINE.decode(text)
        except msgspec.DecodeError as e:  # ValidationError too
            return RunRecordsError(str(e), seq=_seq_of(text))
        except (RecursionError, UnicodeDecodeError) as e:
            return RunRecordsError(str(e), seq=_seq_of(text))
        if lines and (line.writer, line.run, line.rank) != (lines[0].writer, lines[0].run, lines[0].rank):
            error = "the batches of a request are of one writer, run and rank"
            return RunRecordsError(error, seq=line.seq)
        lines.append(line)
    if not lines:
        return RunRecordsError("there is no batch in the body")
    return None


def _seq_of(text: bytes) -> int | None:
    found = _SEQ.search(text)
    return int(found[1]) if found else None
