"""What the ledger was not sure of, in words: rows have the codes, and the hour says each once."""

from __future__ import annotations

from typing import Final

from trilens.model.gpu import HELD_BEFORE_SEEN
from trilens.model.workload import Doubt

POD_WITHOUT_END: Final = "pod-without-end"
OVERLAPPING_BINDINGS: Final = "overlapping-bindings"
SHARE_UNKNOWN: Final = "share-unknown"
RUNS_SHARE_GPU: Final = "runs-share-gpu"
RUN_TOLD_TWICE: Final = "run-told-twice"
CLOCK_JUMPED: Final = "clock-jumped"
HOLDER_UNKNOWN: Final = "holder-unknown"
MORE_GPUS_THAN_TOLD: Final = "more-gpus-than-told"
GPUS_UNKNOWN: Final = "gpus-unknown"
SEVERAL_CURRENCIES: Final = "several-currencies"
TEAM_CHANGED: Final = "team-changed"
PRICE_CHANGED: Final = "price-changed"

IN_WORDS: Final = {
    doubt.code: doubt
    for doubt in (
        Doubt(
            POD_WITHOUT_END,
            "pods had no end when their node went: they held its GPUs until then",
            "if they still run, look why their node does not report",
        ),
        Doubt(
            OVERLAPPING_BINDINGS,
            "GPUs were bound to pods for more than the whole of them: the shares were scaled down",
            "`trilens gpus` shows who is said to hold them, and by whom",
        ),
        Doubt(
            SHARE_UNKNOWN,
            "how much of a GPU some pods have, nobody told: they have equal parts of what others leave",
            "let the exporter tell GPU_I_PROFILE and the model of MIG instances",
        ),
        Doubt(RUNS_SHARE_GPU, "several runs were on one GPU of a pod at a time: they have equal parts of it"),
        Doubt(
            RUN_TOLD_TWICE,
            "two programs told of the same rank of a run at the same time: the one that began first counts",
            "give each program a run of its own, or a rank of its own",
        ),
        Doubt(
            CLOCK_JUMPED,
            "some intervals end before they begin, or steps lie where they cannot: they count as none",
            "check the clocks of the nodes",
        ),
        Doubt(
            HOLDER_UNKNOWN,
            "GPUs worked, or were bound to pods, and nobody knows for whom: they count as free",
            "watch the cluster of their pods; run the agent where programs run outside of pods",
        ),
        Doubt(
            HELD_BEFORE_SEEN,
            "pods ran before anybody saw which GPUs they have: these count as theirs since then",
            "let dcgm-exporter or the agent tell which pod has which GPU",
        ),
        Doubt(
            MORE_GPUS_THAN_TOLD,
            "nodes had more GPUs than they say that they have: those that were seen count",
        ),
        Doubt(
            GPUS_UNKNOWN,
            "nodes do not say how many GPUs they have, and none was seen: they are not in the ledger",
            "install dcgm-exporter or the agent on them",
        ),
        Doubt(
            SEVERAL_CURRENCIES,
            "the price of a node changed its currency within an hour: what came second has no price there",
            "give the price book exchange rates into one currency",
        ),
        Doubt(TEAM_CHANGED, "workloads changed their owner: each counts for its own time"),
        Doubt(PRICE_CHANGED, "prices changed within the hour: each counts for its own time"),
    )
}
