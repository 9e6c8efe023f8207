"""A keeper that is killed, as by kill -9, when its deed is done and before that is written down.

Run by a test in a process of its own: `killed_between.py DATA KUBECONFIG NODE`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from passed_on import PassedOn

from trilens.model.event import EventKind, EventRecord
from trilens.model.fix import Deed, Fix, FixState
from trilens.serve.cure.keeper import CureKeeper
from trilens.settings.cure import CurePolicy
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings
from trilens.store.options import StoreOptions
from trilens.store.store import Store


class Killed(PassedOn):
    def put(self, fix: Fix) -> None:
        if fix.state is not FixState.BEGUN:
            os.kill(os.getpid(), signal.SIGKILL)
        super().put(fix)


def main(data: str, kubeconfig: str, node: str, t_ms: str) -> None:
    store = Store.open(StoreOptions(Path(data)), upkeep=False)
    policy = CurePolicy.model_validate({"allow": [{"do": [Deed.CORDON]}], "approved": ["xid-79"]})
    keeper = CureKeeper(
        policy,
        KubernetesSettings(clusters={"lab": ClusterSettings(kubeconfig=Path(kubeconfig))}),
        Path(data),
        Killed(store.fixes),
        store.events,
        lambda _node: ["lab"],
    )
    keeper.start()
    fault = EventRecord(
        node, "e1", int(t_ms), EventKind.XID, 79, "NVRM", None, None, None, 0, None, None, None, None
    )
    keeper.take_event(fault)
    threading.Event().wait()  # for the end


if __name__ == "__main__":
    main(*sys.argv[1:])
