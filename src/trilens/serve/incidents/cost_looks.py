"""Looks at what workloads cost that keep nobody waiting for long: the engine may be slow, or away."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from trilens.detect.scene import Scene
    from trilens.serve.incidents.workload_costs import WorkloadCosts

log = logging.getLogger(__name__)

_WAIT_S: Final = 2.0  # a look takes milliseconds where all is well


class CostLooks:
    """What is not known when it is asked for is known to a later round: a loss is counted from its beginning
    once there is a price."""

    def __init__(self, costs: WorkloadCosts) -> None:
        self._costs = costs
        self._looking: threading.Thread | None = None
        self._is_well = True

    def look(self, scene: Scene, now_ms: int) -> None:
        """Often done when it returns. One that still goes on is not waited for again."""
        if self._looking is not None and self._looking.is_alive():
            return
        if not self._costs.is_due(now_ms):
            return
        self._looking = threading.Thread(
            target=self._look, args=(scene, now_ms), name="trilens-costs", daemon=True
        )
        self._looking.start()
        self._looking.join(_WAIT_S)

    def _look(self, scene: Scene, now_ms: int) -> None:
        try:
            self._costs.look(scene, now_ms)
        except TrilensError as e:
            if self._is_well:
                log.warning("what workloads cost could not be asked", extra={"error": str(e)})
            self._is_well = False
        except Exception:  # a defect here must not keep incidents from being told
            log.exception("looking at what workloads cost failed")
        else:
            self._is_well = True
