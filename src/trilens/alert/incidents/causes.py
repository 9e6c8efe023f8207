"""What follows from what: the one table by which symptoms of one cause are put together."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.finding import FindingKind
from trilens.model.xid import NVLINK_XIDS, XIDS, Asks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MINUTE_MS: Final = 60_000


class Trouble(StrEnum):
    """What kind of thing a symptom is. In the order of depth: causes stand above their effects."""

    NODE = "node"  # not ready, or gone
    FABRIC = "fabric"  # NVLink, NVSwitch
    GPU = "gpu"  # its hardware failed, or it is lost
    HEAT = "heat"
    THROTTLING = "throttling"
    MEMORY = "memory"  # it fills up, or creeps
    PROGRAM = "program"  # a fault of the program's own, as the GPU tells it
    CPU_FALLBACK = "cpu-fallback"
    DATA = "data"  # batches come too late
    DIVERGENCE = "divergence"
    CRASH = "crash"
    HANG = "hang"
    STRAGGLER = "straggler"
    STALL = "stall"
    QUOTA = "quota"
    PLACEMENT = "placement"  # pods that wait, a gang that is there in part
    PLATEAU = "plateau"
    SLOW = "slow"  # fewer samples a second
    CHECKPOINT = "checkpoint"  # failed, or overdue
    SERVICE = "service"  # latency, errors, queues and objectives of an inference server
    IDLE = "idle"  # GPUs that are held and not used
    WEAKNESS = "weakness"  # rows to replace, replays, one fault after the other: it follows from a fault
    TELEMETRY = "telemetry"  # that is missing, or not to be believed
    MONEY = "money"
    OTHER = "other"  # of rules that nobody told us about


class Link(NamedTuple):
    cause: Trouble
    effects: tuple[Trouble, ...]


_T = Trouble
_JOB: Final = (_T.CRASH, _T.HANG, _T.STALL, _T.STRAGGLER, _T.CHECKPOINT, _T.SLOW, _T.SERVICE, _T.IDLE)

# The next step each; what follows from an effect follows from its cause, too.
LINKS: Final = (
    Link(_T.NODE, (_T.GPU, _T.TELEMETRY, _T.PLACEMENT, *_JOB)),
    Link(_T.FABRIC, (_T.GPU, *_JOB)),
    Link(_T.GPU, (_T.WEAKNESS, _T.TELEMETRY, _T.PLACEMENT, *_JOB)),
    Link(_T.HEAT, (_T.THROTTLING,)),
    Link(_T.THROTTLING, (_T.STRAGGLER, _T.SLOW, _T.SERVICE)),
    Link(_T.MEMORY, (_T.PROGRAM, _T.CRASH)),
    Link(_T.PROGRAM, (_T.CRASH, _T.HANG, _T.STALL)),
    Link(_T.QUOTA, (_T.PLACEMENT,)),
    Link(_T.PLACEMENT, (_T.IDLE, _T.SERVICE)),
    Link(_T.CPU_FALLBACK, (_T.STRAGGLER, _T.SLOW, _T.IDLE)),
    Link(_T.DATA, (_T.STALL, _T.STRAGGLER, _T.SLOW, _T.IDLE)),
    Link(_T.CRASH, (_T.HANG, _T.STALL, _T.PLACEMENT, _T.SERVICE)),
    Link(_T.HANG, (_T.STALL,)),
    Link(_T.STRAGGLER, (_T.STALL, _T.SLOW)),
    Link(_T.STALL, (_T.CHECKPOINT, _T.SLOW, _T.IDLE)),
    Link(_T.DIVERGENCE, (_T.PLATEAU, _T.CRASH)),
    Link(_T.SLOW, (_T.CHECKPOINT, _T.IDLE)),
)
# Upwards, and no further: a watchdog gives up, and ends the program. Of these, what began first is the cause.
AFTERMATH: Final = (Link(_T.HANG, (_T.CRASH,)), Link(_T.STALL, (_T.CRASH,)))

# How long after its cause, or after that is over, an effect may begin to show; else five minutes.
SHOWS_AFTER_MS: Final[Mapping[Trouble, int]] = {
    _T.SLOW: 15 * _MINUTE_MS,  # rates look minutes back
    _T.IDLE: 30 * _MINUTE_MS,
    _T.SERVICE: 60 * _MINUTE_MS,  # a budget burns over an hour
    _T.CHECKPOINT: 60 * _MINUTE_MS,
    _T.PLACEMENT: 15 * _MINUTE_MS,
    _T.WEAKNESS: 60 * _MINUTE_MS,
}
_SHOWS_AFTER_MS: Final = 5 * _MINUTE_MS

# How much later than its effect a cause may be dated: a stall counts from the last step, before the fault.
DATED_LATE_MS: Final[Mapping[Trouble, int]] = {
    _T.NODE: 5 * _MINUTE_MS,  # Kubernetes waits 40 s for a node, and rules wait again
    _T.HEAT: 5 * _MINUTE_MS,
    _T.THROTTLING: 5 * _MINUTE_MS,
    _T.DATA: 10 * _MINUTE_MS,
    _T.QUOTA: 10 * _MINUTE_MS,
}
_DATED_LATE_MS: Final = 2 * _MINUTE_MS

SAME_MS: Final = 10 * _MINUTE_MS  # two of one kind and one subject, whose times do not overlap
DOMAIN_MS: Final = 5 * _MINUTE_MS  # faults of one rack, switch or NVLink domain

PLACED: Final = frozenset({_T.NODE, _T.FABRIC, _T.GPU, _T.HEAT, _T.THROTTLING, _T.WEAKNESS, _T.TELEMETRY})
"""Of a place: they are the same, or follow from each other, on one node. All others are of a workload."""

OF_NAMESPACES: Final = frozenset({_T.QUOTA, _T.PLACEMENT})  # a quota is a namespace's
WIDE: Final = frozenset({_T.NODE, _T.FABRIC})  # all workloads of the node suffer, whichever it names
PINNED: Final = frozenset({_T.STRAGGLER})  # name the place that is to blame: one elsewhere is not its cause
# What several places of one domain have at a time.
SHARED: Final = (frozenset({_T.NODE, _T.FABRIC, _T.GPU}), frozenset({_T.HEAT, _T.THROTTLING}))
ALONE: Final = frozenset({_T.MONEY, _T.OTHER})  # two of these have nothing to do with each other
STANDSTILL: Final = frozenset({_T.NODE, _T.CRASH, _T.HANG, _T.STALL})

_OF_FINDINGS: Final[Mapping[str, Trouble]] = {
    FindingKind.STALL: _T.STALL,
    FindingKind.HANG: _T.HANG,
    FindingKind.STRAGGLER: _T.STRAGGLER,
    FindingKind.THROTTLING: _T.THROTTLING,
    FindingKind.CPU_FALLBACK: _T.CPU_FALLBACK,
    FindingKind.PLATEAU: _T.PLATEAU,
    FindingKind.DIVERGENCE: _T.DIVERGENCE,
    FindingKind.SUSPECT_TELEMETRY: _T.TELEMETRY,
    FindingKind.GPU_FAULT: _T.GPU,
    FindingKind.CRASH: _T.CRASH,
}
_OF_XIDS: Final[Mapping[Asks, Trouble]] = {Asks.APPLICATION: _T.PROGRAM, Asks.NOTHING: _T.WEAKNESS}
_OF_FAULTS: Final[Mapping[str, Trouble]] = {
    "row-remap-pending": _T.WEAKNESS,
    "repeat-offender": _T.WEAKNESS,
    "nvlink": _T.FABRIC,
}
# Those of findings say what they are by their labels; a test asks for every other alert of the pack.
OF_ALERTS: Final[Mapping[Trouble, tuple[str, ...]]] = {
    _T.NODE: ("NodeNotReady",),
    _T.FABRIC: ("GpuNvlinkErrors", "GpuXidLink"),
    _T.GPU: (
        "GpuEccDoubleBit",
        "GpuLost",
        "GpuRowRemapFailed",
        "GpuXidHardware",
        "GpuXidNodeOut",
        "GpuXidUnknown",
        "GpusMissing",
    ),
    _T.HEAT: ("GpuHot",),
    _T.THROTTLING: ("GpuClockDropped", "GpuHardwareSlowdown", "GpuPowerBrake", "GpuThrottledByHeat"),
    _T.MEMORY: ("GpuMemoryCreep", "GpuMemoryNearlyFull", "PodMemoryCreep"),
    _T.PROGRAM: ("CudaOutOfMemory", "GpuXidApplication"),
    _T.DATA: ("TrainingDataBound",),
    _T.DIVERGENCE: ("TrainingGradientExploding", "TrainingLossDiverging", "TrainingLossNotFinite"),
    _T.CRASH: ("PodCrashLooping", "PodOomKilled"),
    _T.HANG: ("TrainingRankMissing",),
    _T.STALL: ("TrainingStalled", "TrainingStepsStopped", "TrainingVanished"),
    _T.QUOTA: ("QueueQuotaExhausted", "QuotaExhausted"),
    _T.PLACEMENT: ("GangPartlyPlaced", "PodPendingLong"),
    _T.PLATEAU: ("TrainingGradientVanishing", "TrainingLossNotDecreasing", "TrainingValidationGap"),
    _T.SLOW: ("TrainingSlow",),
    _T.CHECKPOINT: ("TrainingCheckpointFailed", "TrainingCheckpointOverdue"),
    _T.SERVICE: (
        "InferenceAvailabilityLow",
        "InferenceDown",
        "InferenceErrorsHigh",
        "InferenceFirstTokenSlow",
        "InferenceP95High",
        "InferenceP99High",
        "InferenceQueueGrowing",
        "SloBudgetSpent",
        "SloBurningFast",
        "SloBurningSlow",
    ),
    _T.IDLE: ("GpuUtilizationLow", "WorkloadGpusIdle"),
    _T.WEAKNESS: (
        "GpuPcieReplays",
        "GpuRepeatOffender",
        "GpuRowRemapPending",
        "GpuXidNoted",
        "NodeRepeatOffender",
    ),
    _T.TELEMETRY: ("DcgmExporterMissing", "InferenceBlind", "ScrapeLost", "SloNotMeasured"),
    _T.MONEY: (
        "BudgetBurningFast",
        "BudgetBurningSlow",
        "BudgetNearlySpent",
        "BudgetWillNotDo",
        "CostRateHigh",
        "CostWasted",
        "GpuHoursOnNothing",
        "GpusWithoutPrice",
    ),
    _T.OTHER: (
        "LedgerBehind",
        "RulesWithoutThresholds",
        "TrainingClockSkew",
        "TrilensAgentsSilent",
        "TrilensBackupFailed",
        "TrilensBackupMissing",
        "TrilensBackupOld",
        "TrilensCallersRefused",
        "TrilensCertificateEnding",
        "TrilensClusterNotFollowed",
        "TrilensDamageFound",
        "TrilensDetectionLate",
        "TrilensDetectorFailing",
        "TrilensDiscoveryFailing",
        "TrilensDiskFilling",
        "TrilensDiskNearlyFull",
        "TrilensDiskSlow",
        "TrilensErrorsLogged",
        "TrilensIntakeRefused",
        "TrilensLoopSlow",
        "TrilensMemoryHigh",
        "TrilensNotificationsLate",
        "TrilensNotificationsLost",
        "TrilensReloadFailed",
        "TrilensRestarting",
        "TrilensRulesFailing",
        "TrilensRulesLate",
        "TrilensRulesLeftOut",
        "TrilensScrapesFailing",
        "TrilensServerErrors",
        "TrilensSilent",
        "TrilensSourceAway",
        "TrilensStoreReadOnly",
        "TrilensWritesLate",
    ),
}
TROUBLE_LABEL: Final = "trouble"  # with it a rule says itself what its alerts are


def trouble_of_finding(kind: str, cause: str) -> Trouble:
    """Kind and cause as labels have them; an unknown kind is another version's."""
    if kind == FindingKind.GPU_FAULT:
        if cause in _OF_FAULTS:
            return _OF_FAULTS[cause]
        name, _, code = cause.partition("-")
        if name == "sxid":
            return Trouble.FABRIC
        if name == "xid" and code.isdigit():
            return trouble_of_xid(int(code))
    return _OF_FINDINGS.get(kind, Trouble.OTHER)


def trouble_of_xid(code: int) -> Trouble:
    known = XIDS.get(code)
    if known is None:
        return Trouble.GPU
    if known.asks is Asks.LOOK and code in NVLINK_XIDS:
        return Trouble.FABRIC
    return _OF_XIDS.get(known.asks, Trouble.GPU)


def trouble_of_alert(labels: Mapping[str, str]) -> Trouble:
    if labels.get("finding"):
        return trouble_of_finding(labels["finding"], labels.get("cause", ""))
    told = _BY_NAME.get(labels.get(TROUBLE_LABEL, ""))
    return told or _TROUBLES.get(labels.get("alertname", ""), Trouble.OTHER)


def follows(cause: Trouble, effect: Trouble) -> bool:
    return effect in _FOLLOWING[cause] or effect in _AFTERWARDS.get(cause, ())


def shows_after_ms(effect: Trouble) -> int:
    return SHOWS_AFTER_MS.get(effect, _SHOWS_AFTER_MS)


def dated_late_ms(cause: Trouble) -> int:
    return DATED_LATE_MS.get(cause, _DATED_LATE_MS)


def _closed(links: Iterable[Link]) -> dict[Trouble, frozenset[Trouble]]:
    """All that follows, however many steps on."""
    following = {trouble: set[Trouble]() for trouble in Trouble}
    for link in links:
        following[link.cause] |= set(link.effects)
    for middle in Trouble:
        for cause in Trouble:
            if middle in following[cause]:
                following[cause] |= following[middle]
    return {cause: frozenset(effects) for cause, effects in following.items()}


_FOLLOWING: Final = _closed(LINKS)
_TROUBLES: Final = {name: trouble for trouble, names in OF_ALERTS.items() for name in names}
_AFTERWARDS: Final = {link.cause: link.effects for link in AFTERMATH}
_BY_NAME: Final = {trouble.value: trouble for trouble in Trouble}
_PLACE_IN_ORDER: Final = {trouble: number for number, trouble in enumerate(Trouble)}


def depth(trouble: Trouble) -> int:
    """The lower, the more of the others may follow from it."""
    return _PLACE_IN_ORDER[trouble]
