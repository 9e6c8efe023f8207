"""All boards, and where the chart has them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.dashboards.cost import COST
from tools.dashboards.fleet import FLEET
from tools.dashboards.inference import INFERENCE
from tools.dashboards.itself import ITSELF
from tools.dashboards.workload import WORKLOAD

BOARDS: Final = (FLEET, WORKLOAD, COST, INFERENCE, ITSELF)
FOLDER: Final = Path(__file__).parents[2] / "deploy" / "helm" / "trilens" / "dashboards"
